"""A real marimo notebook, run without a browser: an application starts in it, is awaited and shows itself."""

import json
import os
import re
import subprocess
import sys

import pytest

from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.slow]
NOTEBOOK = """
import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo

    from ridgeline import Application, InputPort, Operator, OutputPort
    from ridgeline.testing import END_WINDOW, CollectorSink, ListInput

    class Times(Operator):
        numbers = InputPort(object)
        products = OutputPort(object)

        @numbers.process
        def multiply(self, number):
            self.products.emit(2 * number)

    made = Application("cells", window="50ms")
    rows = [one for number in range(20) for one in (number, END_WINDOW)]
    source = made.add_operator("source", ListInput(object, rows))
    times = made.add_operator("times", Times())
    sink = made.add_operator("sink", CollectorSink())
    made.add_stream("numbers", source.output, times.numbers)
    made.add_stream("products", times.products, sink.input)
    handle = made.start(quiet=True)
    return handle, mo


@app.cell
async def _(handle):
    import json

    seen = [window["windowId"] async for window in handle]
    outcome = await handle
    with open("seen.json", "w") as file:
        json.dump([seen, outcome.ended, handle.collected("sink")], file)
    return (seen,)


@app.cell
def _(handle, seen):
    handle
    return


@app.cell
def _(handle, mo, seen):
    mo.ui.anywidget(handle.widget)
    return
"""


def test_an_application_is_started_awaited_and_shown(tmp_path):
    pytest.importorskip("marimo")
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    command = [sys.executable, "-m", "marimo", "export", "html", "notebook.py", "-o", "out.html"]
    environment = {**os.environ, "RIDGELINE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen, ended, products = json.loads((tmp_path / "seen.json").read_text())
    assert seen == sorted(set(seen))
    assert (seen[-1], ended) == (19, True)
    assert products == [2 * number for number in range(20)]
    shown = (tmp_path / "out.html").read_text()
    assert shown.count("marimo-anywidget") >= 2, "the views of the handle"
    assert re.search(r"finished after 20 windows", shown), "the state of its widgets"
