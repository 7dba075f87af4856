from __future__ import annotations

import io
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from rich.console import Console

from ridgeline import Application, OperatorError
from ridgeline.api.columns.schema import Schema
from ridgeline.api.support.properties import check_properties
from ridgeline.operators import ConsoleOutput
from ridgeline.testing import ABORT, END_WINDOW, ListInput, run_local
from support.operators.harness import Driven, Published

REMEDY = "; `-D console.limit=N` shows more"


class Quote(NamedTuple):
    symbol: str
    price: float
    volume: int
    time: datetime | None


MORNING = datetime(2026, 1, 2, 9, 30, tzinfo=UTC)


def printed(
    folder: Path, output: ConsoleOutput, *windows: pa.RecordBatch | list[pa.RecordBatch], partitions: int = 1
) -> list[str]:
    parts = [Driven(output, partition=p, partitions=partitions) for p in range(partitions)]
    driver = Published(output, folder, name="console")
    for window, batches in enumerate(windows):
        values = [
            value
            for part in parts
            for value in part.window(*(batches if isinstance(batches, list) else [batches]))[1]
        ]
        assert driver.publisher.stage(window, values) is None
        driver.publisher.publish(window)
        driver.publisher.publish(window)
    driver.publisher.close()
    return driver.text.getvalue().splitlines()


def quotes(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    return Schema(Quote).encode([Quote(*row) for row in rows])


def test_columns_are_aligned_over_windows_and_quiet_without_a_terminal(tmp_path: Path) -> None:
    first = quotes(("IBM", 12.3, 100, MORNING), ("GOOGL", 1234.5, 5, MORNING))
    second = quotes(("FB", 0.1 + 0.2, 1_000_000, MORNING.replace(hour=0, minute=0)))
    assert printed(tmp_path, ConsoleOutput(), first, second) == [
        "console  symbol=IBM    price=  12.3  volume=100  time=2026-01-02 09:30:00Z",
        "console  symbol=GOOGL  price=1234.5  volume=  5  time=2026-01-02 09:30:00Z",
        "console  symbol=FB     price=   0.3  volume=1000000  time=2026-01-02 00:00:00Z",
    ]


@pytest.mark.guide("004", "Sinks")
@pytest.mark.parametrize(
    ("string_format", "line"),
    [
        ("QUOTE: {}", "QUOTE: symbol=IBM  price=12.3  volume=7  time=-"),
        ("QUOTE: %s!", "QUOTE: symbol=IBM  price=12.3  volume=7  time=-!"),
        ("{symbol} costs {price:.2f}", "IBM costs 12.30"),
        ("{{{symbol}}} {}", "{IBM} symbol=IBM  price=12.3  volume=7  time=-"),
        ("{{}} {}", "{} symbol=IBM  price=12.3  volume=7  time=-"),
        ("tick", "tick"),
    ],
)
def test_formats(tmp_path: Path, string_format: str, line: str) -> None:
    assert printed(tmp_path, ConsoleOutput(string_format=string_format), quotes(("IBM", 12.3, 7, None))) == [
        line
    ]


def test_no_more_than_the_limit_a_window_and_partition(tmp_path: Path) -> None:
    numbers = [pa.RecordBatch.from_pydict({"n": list(range(start, start + 1_000))}) for start in (0, 1_000)]
    lines = printed(
        tmp_path, ConsoleOutput(limit=3), numbers, numbers[:1], [numbers[0].slice(0, 2)], partitions=2
    )
    assert lines[:7] == [
        *[f"console  n={n}" for n in [0, 1, 2, 0, 1, 2]],
        f"console  ... and 3,994 more in window 0{REMEDY}",
    ]
    assert lines[13] == f"console  ... and 1,994 more in window 1{REMEDY}"
    assert lines[14:] == [f"console  n={n}" for n in [0, 1, 0, 1]]
    last = printed(tmp_path, ConsoleOutput(limit=0), numbers)
    assert last == [f"console  ... and 2,000 more in window 0{REMEDY}"]


def test_long_values_do_not_push_the_others_aside(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"text": ["x" * 300, "short", "longer"], "n": [1, 2, 3]})
    lines = printed(tmp_path, ConsoleOutput(), rows)
    assert len(lines[0]) < 160
    assert lines[1:] == ["console  text=short   n=2", "console  text=longer  n=3"]


def test_colours_on_a_terminal_only(tmp_path: Path) -> None:
    output = ConsoleOutput()
    driver = Published(output, tmp_path)
    text = io.StringIO()
    vars(driver.publisher)["_context"] = type(
        "Context", (), {"operator": "console", "console": Console(file=text, force_terminal=True)}
    )
    driver.commit(0, Driven(output).window(quotes(("IBM", 1.0, 2, MORNING)))[1])
    assert "\x1b[" in text.getvalue()


@pytest.mark.parametrize(
    ("string_format", "reason"),
    [
        ("{symbl} costs", "it names `symbl`; did you mean `symbol`?"),
        ("{}{}", "Replacement index 1 out of range for positional args tuple; use `{}` once for the tuple"),
        ("{symbol:.2f}", "Unknown format code 'f' for object of type 'str'; use `{}` once for the tuple"),
    ],
)
def test_a_format_that_does_not_fit_the_tuples_is_an_error(string_format: str, reason: str) -> None:
    app = Application("test", window="100ms")
    quotes = app.read("source", ListInput(Quote, [("A", 1.0, 1, MORNING)]))
    quotes.write("console", ConsoleOutput(string_format=string_format))
    fields = ["symbol", "price", "volume", "time"]
    what = f"`string_format` {string_format!r} cannot show a tuple with the fields {fields}; {reason}"
    with pytest.raises(OperatorError, match=re.escape(what)):
        run_local(app)


@pytest.mark.parametrize(
    ("options", "lines"),
    [({"string_format": "{symbol}"}, "A\nB\n"), ({"format": "jsonl"}, '{"symbol":"A"}\n{"symbol":"B"}\n')],
)
def test_a_window_that_failed_prints_nothing(options: dict[str, Any], lines: str) -> None:
    rows = [("A", 1.0, 1, MORNING), END_WINDOW, ("B", 2.0, 2, MORNING), ABORT, END_WINDOW]
    app = Application("test", window="100ms")
    symbols = app.read("source", ListInput(Quote, rows)).select("symbols", "symbol")
    symbols.write("console", ConsoleOutput(**options), application_window_count=2)
    text = io.StringIO()
    run_local(app, console=Console(file=text))
    assert text.getvalue() == lines


def test_what_cannot_be_json_is_said() -> None:
    app = Application("test")
    app.read("source", ListInput(object, ["text"])).write("console", ConsoleOutput(format="jsonl"))
    with pytest.raises(OperatorError, match="`console` cannot print a stream of `object` as JSON"):
        run_local(app)
    [(name, _, rule)] = check_properties(ConsoleOutput(format="jsonl", string_format="{a}"))[1]
    assert (name, rule) == ("string_format", 'is the form of a line of `format="text"`')
