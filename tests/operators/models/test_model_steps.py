"""The steps of streams that predict by models."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import Application, ValidationError
from ridgeline.testing import CollectorSink, ListInput, run_local


class Row(NamedTuple):
    name: str
    a: float


ROWS = [Row("x", 1.0), Row("y", 2.5)]


def twice(rows: pa.RecordBatch) -> Any:
    return rows["a"].to_numpy() * 2


def test_a_fault_names_the_step_the_column_and_the_remedy() -> None:
    app = Application("steps")
    app.read("rows", ListInput(Row, ROWS)).predict("scored", twice, ["b"]).write("sink", CollectorSink())
    with pytest.raises(ValidationError, match=r"scored.*`features` names `b`.*known are `a`, `name`"):
        run_local(app)
