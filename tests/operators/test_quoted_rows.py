"""CSV with line ends in quoted values: the rows are those of Python's csv, wherever blocks end."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from ridgeline import Application
from ridgeline.api.attributes import OnError
from ridgeline.operators import FileInput, _replay_lines
from ridgeline.testing import CollectorSink, Faults, run_local
from support.depth import deep


class Row(NamedTuple):
    a: str
    b: str


def read(path: Path, *, on_error: OnError | None = None, **properties: object) -> list[Row]:
    app = Application("rows")
    attributes = {} if on_error is None else {"on_error": on_error}
    source = FileInput(path, Row, until="end", settle=0.0, null_values=["-"], **properties)  # type: ignore[arg-type]
    rows = app.add_operator("rows", source, **attributes)
    sink = app.add_operator("sink", CollectorSink(Row))
    app.add_stream("rows", rows.output, sink.input)
    faults = Faults(seed=1, rate=0.1, kinds=("exception", "repeat", "restart"), quiet=True)
    return run_local(app, faults=faults).collected("sink")


@pytest.mark.parametrize("seed", range(deep(2)))
def test_rows_are_those_of_pythons_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    monkeypatch.setattr(_replay_lines, "BLOCK_BYTES", random.choice([3, 17, 2**18]))
    monkeypatch.setattr(_replay_lines, "HEAD_BYTES", 5)
    letters = ['"', '""', ",", "x", " ", "é", "\n", "\r\n", "\n\n", "1"]
    wanted = []
    text = io.StringIO(newline="")
    writer = csv.writer(
        text,
        lineterminator=random.choice(["\n", "\r\n"]),
        quoting=random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    )
    writer.writerow(["a", "b"])
    for _ in range(120):
        wanted.append(Row(*("".join(random.choices(letters, k=random.randrange(1, 7))) for _ in "ab")))
        writer.writerow(wanted[-1])
    path = tmp_path / random.choice(["a.csv", "a.csv.gz"])
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    assert list(csv.reader(io.StringIO(data.decode(), newline=""))) == [["a", "b"], *map(list, wanted)]
    assert read(path, window_bytes=random.choice([50, 500, 10**6])) == wanted


def test_a_quote_that_is_not_closed_takes_its_line_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\nx,1\n"y,2\nz,3\n')
    assert read(path, on_error=OnError.SKIP) == [("x", "1"), ("z", "3")]
    monkeypatch.setattr(_replay_lines, "LONGEST_BYTES", 1000)
    path.write_text('a,b\nx,1\n"y,2\n' + "z,3\n" * 1000)
    assert read(path, on_error=OnError.SKIP) == [("x", "1"), *[("z", "3")] * 1000]
