"""Files to replay, and what was read of them."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.operators import FileReplayInput
from support.operators.harness import Driven


class Line(NamedTuple):
    text: str


class Number(NamedTuple):
    n: int


def write(
    folder: Path,
    format: str,
    files: list[list[int]],
    *,
    blank: int = 0,
    last_newline: bool = True,
    ending: str = "\n",
) -> None:
    """Numbers in files that sort in order."""
    for index, numbers in enumerate(files):
        path = folder / f"{index:03d}.{format}"
        if format == "parquet":
            table = pa.table({"other": ["x"] * len(numbers), "n": pa.array(numbers, pa.int32())})
            pq.write_table(table, path, row_group_size=max(3, len(numbers) // 7))
            continue
        lines = [
            f'{{"n": {n}, "other": null}}' if format == "jsonl" else f"x,{n}" if format == "csv" else str(n)
            for n in numbers
        ]
        if blank and format != "text":
            lines = [
                text
                for number, line in enumerate(lines)
                for text in ([line, ""] if number % blank == 0 else [line])
            ]
        if format == "csv":
            lines.insert(0, "other,n")
        path.write_text(ending.join(lines) + (ending if last_newline and lines else ""), newline="")


def replay(path: Any, format: str, **properties: Any) -> FileReplayInput:
    return FileReplayInput(
        path=path, schema=Line if format == "text" else Number, format=format, **properties
    )


def together(parts: list[Driven], windows: int = 10_000) -> list[list[tuple[int, ...]]]:
    """The numbers of each window: a list for each partition; all partitions finish in the same window."""
    result = []
    for _ in range(windows):
        emitted = [part.window()[0] for part in parts]
        result.append(
            [
                tuple(int(value) for batch in batches for value in batch.column(0).to_pylist())
                for batches in emitted
            ]
        )
        assert len({part.finished for part in parts}) == 1
        if parts[0].finished:
            return result
    return result


class Everything(NamedTuple):
    number: int
    ratio: float
    text: str
    flag: bool
    raw: bytes
    at: datetime
    day: date
    hour: time
    took: timedelta
    money: Decimal


class Nested(NamedTuple):
    times: list[datetime]
    by_day: dict[int, Decimal]
    inner: Everything
