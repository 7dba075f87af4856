"""A real YARN: executors are killed, and a driver in the application master.

That one is started by `spark-submit` as docs/clusters.md has it.
"""

import contextlib
import io
import json
import os
import re
import shlex
import signal
import sys
import tarfile
from functools import partial
from pathlib import Path

import pytest

from ridgeline.service.registry import process_identity
from support.accounts.reports import finished
from support.crash.processes import committed, parent
from support.crash.rows import Reader, check_published
from support.crash.yarn import SOURCES, Yarn
from support.depth import deeper
from support.paths import ROOT, SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"
PROPERTIES = ("numbers.windows=1000000", "sums.pause_seconds=0.05", "store.roll_seconds=0.3")
PROPERTY_OPTIONS = [part for value in PROPERTIES for part in ("-D", value)]
OPTIONS = [
    *PROPERTY_OPTIONS,
    *(
        part
        for name in ("numbers", "sums", "store")
        for part in ("--attribute", f"{name}.recovery_attempts=0")
    ),
    *("--log-level", "INFO"),
]
FIXED = {"spark.executor.instances": "3"}
MARK = b"FROM_THE_ARCHIVE=1"
SECRET = "hunter2-of-the-store"
TOKEN = "t" * 32
LOGS = {"stdout", "stderr", "launch_container.sh", "orders.json"}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "4",
}


@pytest.fixture(scope="module")
def yarn(tmp_path_factory):
    with Yarn(tmp_path_factory.mktemp("yarn")) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("settings", "slots"),
    [pytest.param(FIXED, 2, id="fixed", marks=deeper), pytest.param(DYNAMIC, 3, id="dynamic")],
)
def test_executors_that_are_killed_are_replaced(yarn, start, wait_until, tmp_path, settings, slots):
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    places = ("--output", output, "--checkpoint", checkpoint)
    reader = Reader(output, checkpoint)
    reader.start()
    driver = start(APPLICATION, *places, *yarn.settings, *OPTIONS, *conf, **yarn.environment)

    def wait(condition, what):
        wait_until(lambda: condition() or driver.exit_code is not None, what)
        assert driver.exit_code is None, driver.text

    def goes_on():
        before = committed(checkpoint)
        wait(lambda: committed(checkpoint) >= before + 10, "ten windows more")

    def all_there():
        sizes = re.findall(r"containers (?:live in|are spread over) (\d) slots?", driver.text)
        return bool(sizes) and int(sizes[-1]) == slots

    def is_lost(before):
        return len(re.findall(r"event_lines: slot \d is lost", driver.text)) > before

    wait(all_there, "as many slots as there are cores for")
    goes_on()
    for before in range(2):
        pid = int(re.findall(r"slot 0 is there(?: again)?: process (\d+) on", driver.text)[-1])
        os.kill(parent(parent(pid)), signal.SIGKILL)  # behind Spark's Python daemon: its executor
        wait(partial(is_lost, before), "a lost slot")
        goes_on()
        wait(all_there, "as many slots as before")
    driver.process.send_signal(signal.SIGTERM)
    assert driver.wait() == 0, driver.text
    reader.finish()

    windows = committed(checkpoint) + 1
    check_published(output, windows, APPLICATION, tmp_path)


# A driver in the application master ----------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    made = tmp_path / "store"
    made.mkdir()
    return made


@pytest.fixture
def entry(store):
    """`entry()`: what the store says of the application. A driver that a failed test leaves is killed."""
    path = store / ".ridgeline" / "applications" / "orders.json"

    def read():
        return json.loads(path.read_text()) if path.exists() else {}

    yield read
    if (found := read()) and process_identity(found["pid"]) == found["process"]:
        os.kill(found["pid"], signal.SIGKILL)


@pytest.fixture
def archive(tmp_path):
    """An environment whose Python says where it is from, and is the one of these tests."""
    path = tmp_path / "env.tar.gz"
    lines = ["#!/bin/sh", f"export {MARK.decode()}", f'export PYTHONPATH="{SOURCES}:$PYTHONPATH"']
    script = "\n".join([*lines, f'exec {sys.executable} "$@"', ""])
    with tarfile.open(path, "w:gz") as file:
        info = tarfile.TarInfo("bin/python")
        info.size, info.mode = len(script), 0o755
        file.addfile(info, io.BytesIO(script.encode()))
    return path


def recipe(**values):
    """The driver file and the words of `spark-submit` in docs/clusters.md, with these values of a test."""
    text = (ROOT / "docs" / "clusters.md").read_text()
    part = text[text.index("### The driver on YARN") :]
    driver, command = re.findall(r"```\w*\n(.*?)```", part, re.DOTALL)[:2]
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:2] == ["spark-submit", "--master"], words
    return driver, [values.get(word, word) for word in words]


def shown(*folders):
    """Place and text of all that others may see: command lines, logs, scripts of YARN, the store's entry."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path, path.read_text(errors="replace")
    for path in (path for folder in folders for path in folder.rglob("*") if path.name in LOGS):
        with contextlib.suppress(OSError):
            yield path, path.read_text(errors="replace")


def test_a_driver_in_the_cluster_is_found_killed_and_continued_without_loss(
    yarn, entry, archive, store, wait_until, tmp_path
):
    environment = {**os.environ, **yarn.environment, "RIDGELINE_HOME": str(tmp_path / "home")}
    environment |= {"PYTHONPATH": str(SOURCES), "RIDGELINE_STORE": str(store), "RIDGELINE_TOKEN": TOKEN}
    del environment["PYSPARK_PYTHON"]  # the archive has the Python

    def command(*words):
        done = finished([sys.executable, "-m", "ridgeline", *words], env=environment, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    checkpoint, output = store / "orders", tmp_path / "output"
    driver, words = recipe(**{"env.tar.gz#environment": f"{archive}#environment", "hdfs:///streams": store})
    (tmp_path / "driver.py").write_text(driver)
    (tmp_path / "app.py").write_text(APPLICATION.read_text())  # `numbers.py` would hide a module of Python
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "secret.conf").write_text(f"spark.hadoop.planted.secret.key {SECRET}\n")
    reader = Reader(output, checkpoint)
    reader.start()
    given = [*yarn.in_cluster, "--properties-file", "secret.conf"]
    done = finished(
        [yarn.submit, *given, *words[1:], *PROPERTY_OPTIONS, "--", "--output", output],
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cluster_id = re.search(r"Submitted application (application_\d+_\d+)", done.stdout + done.stderr)[1]
    wait_until(lambda: entry().get("state") == "running", "the application")
    found = entry()
    assert (found["deploy_mode"], found["cluster_id"], found["master"]) == ("cluster", cluster_id, "yarn")
    assert MARK in Path(f"/proc/{found['pid']}/environ").read_bytes()
    assert yarn.state(cluster_id) == ("RUNNING", "UNDEFINED")
    assert not [place for place, text in shown(yarn.folder, tmp_path) if SECRET in text or TOKEN in text]
    (row,) = json.loads(command("ps", "--json"))["apps"]
    assert (row["state"], row["deploy_mode"]) == ("running", "cluster")
    assert row["says"] in {"starting", "ok", "behind"}  # its web service has answered, elsewhere than here

    wait_until(lambda: committed(checkpoint) >= 5, "windows")
    os.kill(parent(found["pid"]), signal.SIGKILL)  # the application master, above the driver's Python
    wait_until(
        lambda: entry()["id"].endswith("-2") and entry()["state"] == "running", "YARN's second attempt"
    )
    assert entry()["cluster_id"] == cluster_id
    wait_until(lambda: process_identity(found["pid"]) != found["process"], "the end of the driver before")
    before = committed(checkpoint)
    wait_until(lambda: committed(checkpoint) > before + 5, "more windows")
    assert "orders has ended" in command("stop", "orders")
    wait_until(lambda: yarn.state(cluster_id) == ("FINISHED", "SUCCEEDED"), "YARN's word of it")
    assert entry()["reason"] == "it was stopped"
    reader.finish()

    check_published(output, committed(checkpoint) + 1, APPLICATION, tmp_path)
