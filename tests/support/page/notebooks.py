"""Real notebooks in a browser: servers of JupyterLab and marimo, and an application of known figures."""

import importlib.util
import os
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

from support.ports import free_port
from support.waiting import wait_until

_END_SECONDS = 20
APPLICATION = '''
import time
from pathlib import Path
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.testing import NullSink


class Number(NamedTuple):
    value: int


class Numbers(InputOperator):
    output = OutputPort(Number)
    end: str
    next = State(0)

    def emit_tuples(self):
        for value in range(self.next, self.next + 10):
            self.output.emit(Number(value))
        self.next += 10
        if Path(self.end).exists():
            self.finish()


class Slow(Operator):
    """The operator that the critical path must name: 4 ms for each of ten numbers."""

    numbers = InputPort(Number)
    results = OutputPort(Number)

    @numbers.process
    def work(self, number):
        time.sleep(0.004)
        self.results.emit(number)


def make(end):
    app = Application("cells", window="100ms")
    source = app.add_operator("source", Numbers(end=end))
    slow = app.add_operator("slow", Slow())
    sink = app.add_operator("sink", NullSink())
    app.add_stream("numbers", source.output, slow.numbers)
    app.add_stream("results", slow.results, sink.input)
    return app
'''


@contextmanager
def _served(command, folder, address):
    """What a server of notebooks shows while it runs. It gets homes of its own in the folder."""
    environment = {
        **os.environ,
        "HOME": str(folder),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_CONFIG_DIR": str(folder / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "RIDGELINE_HOME": str(folder / "home"),
    }
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: server.poll() is not None or _answers(address), f"the server of {command[0]}")
        assert server.poll() is None, (folder / "server.log").read_text()
        yield address
    finally:
        server.terminate()
        try:
            server.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _answers(address):
    try:
        with urllib.request.urlopen(address):
            return True
    except OSError:
        return False


MARIMO = """
import marimo

app = marimo.App()


@app.cell
def _():
    from cells import make

    made = make("end")
    made
    return (made,)


@app.cell
def _(made):
    handle = made.start("local[2]", port=0, quiet=True)
    handle
    return (handle,)


if __name__ == "__main__":
    app.run()
"""


@contextmanager
def marimo(folder, text=MARIMO):
    """The address of a marimo notebook, whose cells run once it is opened. The file `end` ends the run."""
    (folder / "cells.py").write_text(APPLICATION)
    (folder / "notebook.py").write_text(text)
    port = free_port()
    command = ["marimo", "run", "notebook.py", "--headless", "--no-token", "--host", "127.0.0.1"]
    with _served([*command, "--port", str(port)], folder, f"http://127.0.0.1:{port}") as address:
        yield address


KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
CELLS = (
    "from cells import make\nmade = make('end')\nmade",
    "handle = made.start('local[2]', port=0, quiet=True)\nhandle",
)


@contextmanager
def jupyterlab(folder, notebook):
    """The address of a notebook in JupyterLab; `end` in the folder ends the run."""
    import nbformat

    (folder / "cells.py").write_text(APPLICATION)
    nbformat.write(notebook, folder / "notebook.ipynb")
    port = free_port()
    options = ["--no-browser", "--allow-root", "--expose-app-in-browser", "--ServerApp.ip=127.0.0.1"]
    options += ["--IdentityProvider.token=", "--ServerApp.password=", f"--ServerApp.port={port}"]
    options += [
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
    ]
    address = f"http://127.0.0.1:{port}"
    with _served(["jupyterlab", *options], folder, f"{address}/api"):
        yield f"{address}/lab/tree/notebook.ipynb"


def has_jupyterlab():
    """True if JupyterLab is there."""
    return importlib.util.find_spec("jupyterlab") is not None
