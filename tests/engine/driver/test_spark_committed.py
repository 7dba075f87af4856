"""Operators hear of commits on Spark, those of the first stage too."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from ridgeline import Application, InputOperator, OutputPort
from ridgeline.operators import ConsoleOutput
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark


class Telling(InputOperator):
    """Writes down which windows were committed."""

    output = OutputPort(object)
    file: str

    def emit_tuples(self) -> None:
        self.output.emit(1)

    def committed(self, window_id: int) -> None:
        with Path(self.file).open("a", encoding="utf-8") as file:
            file.write(f"{window_id}\n")


def test_the_only_container_gets_the_commits_in_order_and_the_last_one(
    spark_context: SparkContext, tmp_path: Path
) -> None:
    reported = tmp_path / "reported"
    app = Application("telling", window=0)
    telling = app.add_operator("telling", Telling(file=str(reported)))
    app.add_stream("ones", telling.output, app.add_operator("console", ConsoleOutput()).input)
    run_on_spark(app, spark_context, tmp_path / "checkpoint", windows=3)
    told = [int(window) for window in reported.read_text(encoding="utf-8").split()]
    # One commit may cover several windows: some may be passed over, the last one never.
    assert told == sorted(set(told))
    assert set(told) <= {0, 1, 2}
    assert told[-1] == 2
