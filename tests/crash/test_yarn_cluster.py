"""`submit --deploy-mode cluster` on a real YARN: a driver in its application master, which is killed."""

import contextlib
import io
import json
import os
import re
import signal
import sys
import tarfile
from pathlib import Path

import pytest

from ridgeline.cli.load import load_application
from ridgeline.engine.spark.cluster import end_on_yarn
from ridgeline.service.registry import process_identity
from ridgeline.testing import run_local
from support.accounts.reports import finished
from support.crash.processes import committed, parent
from support.crash.rows import Reader, multisets
from support.crash.yarn import SOURCES, Yarn
from support.depth import deeper
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"
PROPERTIES = ("numbers.windows=1000000", "sums.pause_seconds=0.05", "store.roll_seconds=0.3")
OPTIONS = [part for value in PROPERTIES for part in ("-D", value)]
MARK = b"FROM_THE_ARCHIVE=1"
SECRET = "hunter2-of-the-store"
LOGS = {"stdout", "stderr", "launch_container.sh", "spark-submit.log", "sums.json"}


@pytest.fixture(scope="module")
def yarn(tmp_path_factory):
    with Yarn(tmp_path_factory.mktemp("yarn")) as cluster:
        yield cluster


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def command(yarn, store, tmp_path):
    """`command("ps")`: what a command prints, with the cluster and the store in its environment."""
    environment = {**os.environ, **yarn.environment, "RIDGELINE_HOME": str(tmp_path / "home")}
    environment |= {"PYTHONPATH": str(SOURCES), "RIDGELINE_STORE": str(store)}
    del environment["PYSPARK_PYTHON"]  # the archive has the Python

    def call(*words, code=0):
        done = finished([sys.executable, "-m", "ridgeline", *words], env=environment, cwd=tmp_path)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    return call


@pytest.fixture
def entry(store):
    """`entry()`: what the store says of the application. A driver that a failed test leaves is killed."""
    path = store / ".ridgeline" / "applications" / "sums.json"

    def read():
        return json.loads(path.read_text())

    yield read
    found = read() if path.exists() else {"pid": 0, "process": ""}
    if process_identity(found["pid"]) == found["process"]:
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


@pytest.fixture
def words(yarn, archive, tmp_path):
    """The submission."""
    output = tmp_path / "output"
    found = ["submit", str(APPLICATION), "--name", "sums", "--deploy-mode", "cluster", *yarn.in_cluster]
    found += [*OPTIONS, "--archives", str(archive), "--conf", f"spark.hadoop.planted.secret.key={SECRET}"]
    return [*found, "--", "--output", str(output)]


def shown(*folders):
    """Place and text of all that others may see: command lines, logs, scripts of YARN, the store's entry."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path, path.read_text(errors="replace")
    for path in (path for folder in folders for path in folder.rglob("*") if path.name in LOGS):
        with contextlib.suppress(OSError):
            yield path, path.read_text(errors="replace")


def test_a_driver_in_the_cluster_is_found_killed_and_continued_without_loss(
    yarn, command, entry, words, store, wait_until, tmp_path
):
    checkpoint, output = store / "sums", tmp_path / "output"
    reader = Reader(output, checkpoint)
    reader.start()
    out = command(*words)
    found = entry()
    assert re.search(rf"sums: YARN has taken it as {found['cluster_id']}", out)
    assert re.search(rf"sums runs: run {found['run']}-1, at http://\S+:\d+", out)
    assert (found["deploy_mode"], found["state"], found["master"]) == ("cluster", "running", "yarn")
    assert MARK in Path(f"/proc/{found['pid']}/environ").read_bytes()
    (left,) = (tmp_path / "home" / "submitted").glob("sums-*/*")  # YARN has settings and payload
    assert {path.name for path in left.iterdir()} == {"ridgeline_driver.py", "spark-submit.log", "token"}
    assert yarn.state(found["cluster_id"]) == ("RUNNING", "UNDEFINED")
    token = (left / "token").read_text()
    assert not [place for place, text in shown(yarn.folder, tmp_path) if SECRET in text or token in text]
    (row,) = json.loads(command("ps", "--json"))["apps"]
    assert (row["state"], row["deploy_mode"]) == ("running", "cluster")
    assert row["says"] in {"starting", "ok", "behind"}  # its web service has answered, elsewhere than here
    command("logs", "sums")
    wait_until(lambda: "<title>Ridgeline</title>" in yarn.page(found["cluster_id"]), "the page by YARN")

    wait_until(lambda: committed(checkpoint) >= 5, "windows")
    os.kill(parent(found["pid"]), signal.SIGKILL)  # the application master, above the driver's Python
    wait_until(lambda: entry()["epoch"] == 2 and entry()["state"] == "running", "YARN's second attempt")
    again = entry()
    assert (again["cluster_id"], again["submission"]) == (found["cluster_id"], found["submission"])
    wait_until(lambda: process_identity(found["pid"]) != found["process"], "the end of the driver before")
    before = committed(checkpoint)
    wait_until(lambda: committed(checkpoint) > before + 5, "more windows")
    assert "sums has ended" in command("stop", "sums")
    wait_until(lambda: yarn.state(found["cluster_id"]) == ("FINISHED", "SUCCEEDED"), "YARN's word of it")
    assert entry()["reason"] == "it was stopped"
    reader.finish()

    run_local(
        load_application(str(APPLICATION), ["--output", str(tmp_path / "whole")]),
        properties={"numbers.windows": str(committed(checkpoint) + 1)},
    )
    assert multisets(output) == multisets(tmp_path / "whole")


@deeper
def test_one_that_yarn_or_a_user_ends_is_noticed_and_continues_with_the_next_submit(
    yarn, command, entry, words, store, wait_until, monkeypatch
):
    monkeypatch.setenv("HADOOP_CONF_DIR", yarn.environment["HADOOP_CONF_DIR"])

    def ended(cluster_id):
        wait_until(lambda: yarn.state(cluster_id) == ("KILLED", "KILLED"), "YARN's word of it")

    def row():
        return json.loads(command("ps", "--json"))["apps"][0]

    def more_windows(than):
        wait_until(lambda: committed(store / "sums") > than, "more windows")

    command(*words)
    more_windows(-1)
    end_on_yarn(entry()["cluster_id"])
    ended(entry()["cluster_id"])
    wait_until(lambda: row()["state"] == "dead", "a word of its end")
    before = committed(store / "sums")
    command(*words)
    assert entry()["epoch"] == 2
    more_windows(before)
    assert f"YARN has ended {entry()['cluster_id']}" in command("kill", "sums", "--yes")
    ended(entry()["cluster_id"])
    assert row()["state"] == "failed"
    assert "killed by" in row()["sentence"]
