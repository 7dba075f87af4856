"""Times of day that Arrow holds and Python would change are refused, whatever way they come."""

from datetime import date, time
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeline import Application, InputOperator, OutputPort, RidgelineError
from ridgeline.operators import FileReplayInput
from ridgeline.testing import CollectorSink, run_local

DAY = 86_400_000_000


class Opens(NamedTuple):
    at: time | None


class Week(NamedTuple):
    at: list[time]


class Shops(NamedTuple):
    at: dict[str, time]


class Day(NamedTuple):
    at: date


def emitted(kind: Any, array: pa.Array) -> list[Any]:
    class Source(InputOperator):
        out = OutputPort(kind)

        def emit_tuples(self) -> None:
            self.out.emit_batch(pa.record_batch({"at": array}))
            self.finish()

    return collected(Source(), "out", kind)


def collected(operator: Any, port: str, kind: Any) -> list[Any]:
    app = Application("times")
    source = app.add_operator("source", operator)
    sink = app.add_operator("sink", CollectorSink(kind))
    app.add_stream("times", getattr(source, port), sink.input)
    return run_local(app).collected("sink")


def times(kind: Any, *values: int | None, unit: str = "us") -> pa.Array:
    of = pa.time64(unit) if unit in ("us", "ns") else pa.time32(unit)
    flat = pa.array(values, of)
    if kind is Week:
        return pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)
    if kind is Shops:
        names = pa.array([str(number) for number in range(len(flat))])
        return pa.MapArray.from_arrays(pa.array([0, len(flat)], pa.int32()), names, flat)
    return flat


@pytest.mark.parametrize("kind", [Opens, Week, Shops])
@pytest.mark.parametrize(("value", "unit"), [(DAY, "us"), (-1, "us"), (86_400, "s"), (DAY * 1000, "ns")])
def test_a_time_beyond_its_day_is_refused(kind: Any, value: int, unit: str) -> None:
    with pytest.raises(RidgelineError, match=r"`at.*` has a time of day that is not within a day"):
        emitted(kind, times(kind, 0, value, unit=unit))


@pytest.mark.parametrize("kind", [Opens, Week, Shops])
def test_in_parquet_files_too(kind: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": times(kind, DAY)}), tmp_path / "a.parquet")
    with pytest.raises(RidgelineError, match="not within a day"):
        collected(FileReplayInput(path=tmp_path, format="parquet", schema=kind), "output", kind)


def test_a_date_that_python_does_not_have_is_told() -> None:
    with pytest.raises(OverflowError, match=r"column `at` of Day.* not between the years 1 and 9999"):
        emitted(Day, pa.array([2**30], pa.date32()))
