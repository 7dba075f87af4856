"""Output folder, checkpoint and Spark's own log: each as it was left, missing, or an older copy.

The rows are right, or it is said.
"""

from __future__ import annotations

import io
import itertools
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from ridgeline import Application
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.run.launch import Options, launch
from ridgeline.operators import FileOutput, SparkInput
from ridgeline.plan.planner import plan_application
from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STATES = ("fine", "missing", "old")


def run(folder: Path, context: Any, rows: list[int]) -> str:
    """One window with new rows, then an orderly end; what was printed."""
    (folder / "in").mkdir(parents=True, exist_ok=True)
    (folder / "in" / f"{rows[0]}.json").write_text("".join(f'{{"n": {row}}}\n' for row in rows))
    source = SparkInput(
        format="json", options={"path": str(folder / "in")}, schema=pa.schema([("n", pa.int64())])
    )
    app = Application("folders", window="100ms")
    stream = app.add_operator("source", source)
    sink = app.add_operator("sink", FileOutput(path=folder / "out", format="jsonl"))
    app.add_stream("rows", stream.output, sink.input)
    text = io.StringIO()
    console = Console(file=text, width=200, force_terminal=False)
    stop = threading.Event()
    # One that passes over its rows without a word would wait for others for ever.
    timer = threading.Timer(PATIENCE_SECONDS, stop.set)
    timer.start()
    try:
        launch(
            plan_application(app),
            Options(checkpoint=str(folder / "checkpoint"), windows=1),
            context=context,
            console=console,
            stop=stop,
        )
    finally:
        timer.cancel()
    return text.getvalue()


def visible(folder: Path) -> list[int]:
    return sorted(
        json.loads(line)["n"]
        for file in (folder / "out").glob("sink-*")
        for line in file.read_text().splitlines()
    )


def put(source: Path, target: Path, *, without: str = "") -> None:
    shutil.copytree(
        source,
        target,
        ignore=lambda folder, names: [without] if without in names and Path(folder) == source else [],
    )


def test_every_combination_is_right_or_said(spark_context: Any, tmp_path: Path) -> None:
    made = tmp_path / "made"
    run(made, spark_context, [1, 2])
    shutil.copytree(made, tmp_path / "old")
    run(made, spark_context, [3, 4])
    assert visible(made) == [1, 2, 3, 4]
    shutil.copytree(made, tmp_path / "fine")
    outcomes = {}
    for out, checkpoint, log in itertools.product(STATES, STATES, STATES):
        shutil.rmtree(made)
        shutil.copytree(tmp_path / "fine" / "in", made / "in")
        if out != "missing":
            put(tmp_path / out / "out", made / "out")
        if checkpoint != "missing":
            put(tmp_path / checkpoint / "checkpoint", made / "checkpoint", without="spark")
        if log != "missing":
            put(tmp_path / log / "checkpoint" / "spark", made / "checkpoint" / "spark")
        try:
            said = run(made, spark_context, [5, 6])
            outcome = (
                "right"
                if visible(made) == [1, 2, 3, 4, 5, 6]
                else "said"
                if "holds the output of another run" in said
                else "WRONG"
            )
        except RidgelineError as error:
            outcome = f"error: {error}"
        outcomes[out, checkpoint, log] = outcome
    for combination, outcome in outcomes.items():
        print(*combination, outcome)
    assert outcomes["fine", "fine", "fine"] == "right"
    assert outcomes["missing", "missing", "missing"] == "right"
    assert [combination for combination, outcome in outcomes.items() if outcome == "WRONG"] == []
