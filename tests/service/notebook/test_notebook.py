"""A notebook as people run it: in a kernel of its own, by the messages of Jupyter, from the first cell on."""

import json
import os
import tempfile

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SECONDS = 300

SOURCE = """
from typing import NamedTuple
from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.testing import CollectorSink

class Number(NamedTuple):
    value: int

class Numbers(InputOperator):
    output = OutputPort(Number)
    next = State(0)

    def emit_tuples(self):
        for value in range(self.next, self.next + 10):
            self.output.emit(Number(value))
        self.next += 10

def make():
    app = Application("cells", window="50ms")
    source = app.add_operator("source", Numbers())
    step = app.add_operator("step", Step())
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", source.output, step.numbers)
    app.add_stream("results", step.results, sink.input)
    return app
"""
STEP = """
class Step(Operator):
    numbers = InputPort(Number)
    results = OutputPort(Number)

    @numbers.process
    def work(self, number):
        self.results.emit(Number({expression}))
"""
STEPS = """
seen = []
async for window in handle:
    seen.append(window["windowId"])
    if len(seen) == 3:
        break
seen
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What the cells have put out, by name."""
    cells = {
        "source": SOURCE,
        "twice": STEP.format(expression="2 * number.value"),
        "plan": "app = make()\napp",
        "start": "handle = app.start('local[2]', port=0)\nhandle",
        "windows": STEPS,
        "stop": "handle.stop()\nhandle",
        "first": "handle.collected('sink', window=0)[:3]",
        "five": STEP.format(expression="5 * number.value"),
        "again": "handle = make().start('local[2]', port=0, windows=4)\n(await handle).windows_committed",
        "second": "handle.collected('sink', window=0)[:3]",
        "hours": "sum(handle.history('step')['windows'].to_pylist())",
        "wrong": STEP.format(expression="1 // (number.value - 3)"),
        "failure": "handle = make().start('local[2]', port=0, windows=4)\nawait handle",
    }
    notebook = new_notebook(cells=[new_code_cell(text) for text in cells.values()])
    home = str(tmp_path_factory.mktemp("home"))
    with tempfile.TemporaryDirectory(prefix="nb") as folder:  # a socket's path must be short
        manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{folder}/k")
        client = NotebookClient(notebook, km=manager, timeout=SECONDS, allow_errors=True)
        client.execute(env={**os.environ, "RIDGELINE_HOME": home}, cleanup_kc=True)
    nbformat.validate(notebook)
    return dict(zip(cells, (cell.outputs for cell in notebook.cells), strict=True))


def shown(outputs, name):
    (found,) = outputs[name]
    return found["data"]


def test_classes_of_cells_are_changed_and_run_again(outputs):
    values = [f"[{', '.join(f'Number(value={factor * one})' for one in range(3))}]" for factor in (2, 5)]
    assert [shown(outputs, name)["text/plain"] for name in ("first", "second")] == values
    assert shown(outputs, "again")["text/plain"] == shown(outputs, "hours")["text/plain"] == "4"


def test_it_is_waited_for_with_await_and_async_for(outputs):
    seen = json.loads(shown(outputs, "windows")["text/plain"])
    assert len(seen) == 3
    assert seen == list(range(seen[0], seen[0] + 3))


def test_handles_and_plans_show_themselves_once(outputs):
    for name in ("plan", "start", "stop"):
        assert "<table" in shown(outputs, name)["text/html"]
    assert "stopped after" in shown(outputs, "stop")["text/html"]


def test_an_error_ends_with_the_line_of_the_cell(outputs):
    error = outputs["failure"][-1]
    assert error["output_type"] == "error"
    assert error["ename"] == "OperatorError"
    assert error["evalue"].rstrip().endswith("self.results.emit(Number(1 // (number.value - 3)))")
