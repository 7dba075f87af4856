"""The command, called in this process or in one of its own."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ridgeline
from ridgeline.cli.main import app
from ridgeline.service import registry
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import create_app
from support.accounts.reports import Command
from support.paths import SUPPORT

TINY = SUPPORT / "cli" / "tiny.py"


@pytest.fixture(autouse=True)
def _clean_imports(tmp_path, monkeypatch):
    """Every test runs in an empty folder, with a registry of its own; what it loads is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path / "ridgeline-home"))
    monkeypatch.delenv("RIDGELINE_TOKEN", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    """End the thread of a view with its test: with a stepping clock it never waits, and runs on."""
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "ridgeline-long-windows"]


@pytest.fixture
def ridgeline_command():
    """`ridgeline_command("plan", "app.py")` in this process: exit_code, stdout, stderr.

    `typed`: what stands in its standard input.
    """

    def call(*words, typed=None):
        return CliRunner().invoke(app, [str(word) for word in words], input=typed)

    return call


@pytest.fixture
def utc(monkeypatch):
    """Times of day are shown in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def serve():
    """`serve(watch, plan)`: the web service of a watch, and the application in the registry."""
    with contextlib.ExitStack() as opened:

        def start(watch, plan, *, token=None, number="numbers-1", registered=True):
            server = WebServer(create_app(watch, plan, token=token))
            opened.callback(server.close)
            if registered:
                given = {"token": token, "started": 1_600_000_000.0, "user": "ann"}
                entry = registry.own_entry(number, plan.logical.application, server.url, **given)
                opened.callback(registry.remove_own, registry.register(entry))
            return server

        yield start


@pytest.fixture
def environment():
    """The environment of a process that imports the same Ridgeline, wherever it runs."""
    home = str(Path(ridgeline.__file__).parent.parent)
    variables = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "FORCE_COLOR"}}
    options = f"{variables.get('SPARK_SUBMIT_OPTS', '')} -Dspark.ridgeline.slots.patience=10m"
    return {
        **variables,
        "PYTHONPATH": os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")])),
        "SPARK_SUBMIT_OPTS": options.strip(),  # on a slow machine no run warns that Spark is slow
    }


@pytest.fixture
def ridgeline_process(tmp_path, environment):
    """Start the command in a process of its own; a process that a failed test leaves is killed."""
    started = []

    def start(*words):
        process = Command(
            [sys.executable, "-m", "ridgeline", *words],
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.clean()
        else:
            process.forget()
        process.communicate()


@pytest.fixture
def write_app(tmp_path):
    """`write_app("app.py", text)`: a file whose `APP` makes a small valid application of that name."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_HEAD + text)
        return name

    return write


_HEAD = f"""
import sys
sys.path.append({str(TINY.parent)!r})
from ridgeline import Application
from tiny import Numbers, Total

def APP(name):
    made = Application(name)
    numbers = made.add_operator("numbers", Numbers())
    total = made.add_operator("total", Total())
    made.add_stream("numbers", numbers.output, total.numbers)
    return made

"""
