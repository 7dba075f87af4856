"""Tables that are read again and again: what comes makes the table that was read, whatever fails."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ridgeline import Application, OperatorError, RidgelineError, ValidationError
from ridgeline.operators import TableInput
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
from support.depth import deep


class User(NamedTuple):
    name: str
    country: str | None
    score: float
    tags: list[str]


class Order(NamedTuple):
    id: int
    user: str


COLUMNS = pa.schema([("name", pa.string()), ("country", pa.string()), ("score", pa.float64())])
CALLS: dict[str, int] = defaultdict(int)


def tables(seed: int, count: int = 8) -> list[list[User]]:
    chance = Random(seed)
    return [
        [
            User(
                f"u{number}",
                chance.choice([None, "CH", "NO"]),
                chance.choice([0.0, 1.5, float("nan")]),
                chance.choice([[], ["a"], ["a", "b"]]),
            )
            for number in range(12)
            if chance.random() < 0.7
        ]
        for _ in range(count)
    ]


def applied(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The table that changes make; each must change something."""
    found: dict[str, str] = {}
    for row in rows:
        own = repr(tuple(row[name] for name in User._fields))
        if row["deleted"]:
            assert found.pop(row["name"]) == own
        else:
            assert found.get(row["name"]) != own
            found[row["name"]] = own
    return found


def reading(name: str, found: Sequence[Any]) -> Callable[[], Any]:
    """A function that returns one after the other, and the last one from then on."""
    CALLS[name] = 0

    def read() -> Any:
        CALLS[name] += 1
        one = found[min(CALLS[name], len(found)) - 1]
        if isinstance(one, Exception):
            raise one
        return one

    return read


@pytest.mark.parametrize("seed", range(deep(2)))
def test_what_comes_makes_the_table(seed: int) -> None:
    made = tables(seed)
    app = Application("users", window="1m")
    app.read("users", TableInput(reading("made", made), User, "name", "2m")).write("sink", CollectorSink())
    run = run_local(app, windows=20)
    rows: list[dict[str, Any]] = []
    for number, table in enumerate(made):
        rows += run.collected("sink", 2 * number)
        assert not run.collected("sink", 2 * number + 1)
        assert applied(rows) == {row.name: repr(tuple(row)) for row in table}
    assert len(run.collected("sink")) == len(rows)


@pytest.mark.parametrize("seed", range(deep(2)))
def test_kills_lose_nothing(seed: int) -> None:
    made = tables(seed)
    app = Application("users", window="1m")
    app.read("users", TableInput(reading("killed", made), User, "name", "1m")).write("sink", CollectorSink())
    run = run_local(app, windows=24, faults=Faults(seed))
    assert applied(run.collected("sink")) == {row.name: repr(tuple(row)) for row in made[-1]}


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": pa.Table.from_pandas,
    "rows": lambda frame: list(frame[COLUMNS.names].itertuples(index=False, name=None)),
    "dictionaries": lambda frame: frame[COLUMNS.names].to_dict("records"),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_frames_and_rows(make: Callable[[pd.DataFrame], Any]) -> None:
    frame = pd.DataFrame(
        {"score": [1, 2, 3], "more": 0, "name": ["a", "b", "a"], "country": ["CH", "NO", "NO"]}
    )
    app = Application("users", window="1m")
    source = TableInput(reading("frames", [make(frame)]), COLUMNS, "name", until="end")
    assert app.read("users", source).collect() == [
        {"name": "b", "country": "NO", "score": 2.0, "deleted": False},
        {"name": "a", "country": "NO", "score": 3.0, "deleted": False},
    ]


def test_a_later_error_leaves_the_table(caplog: pytest.LogCaptureFixture) -> None:
    rows = [User("a", None, 1.0, [])]
    wrong = pl.DataFrame({"nam": ["a"]})
    found = [
        rows,
        OSError("no such file"),
        wrong,
        pa.table({"name": [None], "country": [None], "score": [1.0], "tags": [[]]}),
        [],
    ]
    app = Application("users", window="1m")
    users = TableInput(reading("errors", found), User, "name", "1m")
    app.read("users", users).write("sink", CollectorSink())
    with caplog.at_level(logging.WARNING):
        run = run_local(app, windows=6)
    assert [(row["name"], row["deleted"]) for row in run.collected("sink")] == [("a", False), ("a", True)]
    assert "`users` keeps its table, since it could not be read: no such file" in caplog.text
    assert "has no column `name`; did you mean `nam`?" in caplog.text
    assert "has a null in `name`" in caplog.text
    values = {one["metric"]: one["value"] for one in run.watch.own_metrics("users")["metrics"]}
    assert values == {"held_rows": 0, "failed_reads": 3}


def test_the_first_error_ends_it() -> None:
    app = Application("users")
    source = TableInput(reading("first", [OSError("no such file")]), User, "name")
    app.read("users", source).write("sink", CollectorSink())
    with pytest.raises(OperatorError, match="no such file"):
        run_local(app)


def test_a_stream_is_joined_with_the_newest_table(tmp_path: Path) -> None:
    file = tmp_path / "users.csv"

    def write(text: str) -> None:
        file.write_text(f"name,country,score\n{text}")

    def read() -> pl.DataFrame:
        users = pl.read_csv(file)
        write("ann,NO,1\n")
        return users

    write("ann,CH,1\nbob,CH,2\n")
    app = Application("shop", window="1m")
    orders = [(1, "ann"), (2, "bob"), END_WINDOW, (3, "ann"), (4, "bob")]
    table = app.read("users", TableInput(read, COLUMNS, "name", "1m")).table("by_name", key="name")
    known = app.read("orders", ListInput(Order, orders)).join("known", table, on={"user": "name"}, how="left")
    found = known.collect(windows=3)
    assert [(row["id"], row["country"]) for row in found] == [(1, "CH"), (2, "CH"), (3, "NO"), (4, None)]


def test_faults_name_what_to_do() -> None:
    def fault(operator: Any, **attributes: Any) -> str:
        app = Application("users")
        app.read("users", operator, **attributes).write("sink")
        with pytest.raises(ValidationError) as found:
            run_local(app)
        return str(found.value)

    read = reading("faults", [[]])
    assert "did you mean `name`" in fault(TableInput(read, User, "nam"))
    assert "whose values cannot be keys" in fault(TableInput(read, User, "tags"))
    assert "give the one of deletions another name" in fault(TableInput(read, User, "name", deleted="score"))
    assert "must be more than 0" in fault(TableInput(read, User, "name", 0))
    assert "partitions" in fault(TableInput(read, User, "name"), partitions=2)
    with pytest.raises(RidgelineError, match="never ends"):
        Application("users").read("users", TableInput(read, User, "name")).collect()
