"""Applications by name, from `submit` to the next `submit`: on a cluster, killed, twice at once."""

import json
import os
import re
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

from ridgeline.cli.applications.submitting import run_words
from ridgeline.service.registry import process_identity
from ridgeline.service.store.entry import StoreEntry
from ridgeline.service.store.folder import EntryFolder
from ridgeline.service.store.presence import is_end_asked
from support.accounts.reports import Command
from support.depth import deeper
from support.manifests import last_of
from support.paths import SUPPORT
from support.ports import free_port
from support.waiting import wait_until

TINY = SUPPORT / "cli" / "tiny.py"
SPARK = Path(pyspark.__file__).parent


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def call(ridgeline_process, store):
    """`call("ps")`: exit code, standard output and error of a command, with the store in the environment."""

    def run(*words, code=0):
        process = ridgeline_process(*map(str, words))
        out, error = process.communicate()
        assert process.returncode == code, (words, out, error)
        return out, error

    return run


@pytest.fixture
def environment(environment, store):
    return {**environment, "RIDGELINE_STORE": str(store), "PYSPARK_PYTHON": sys.executable}


@pytest.fixture
def _nothing_is_left(store):
    """Kill the drivers that a failed test leaves."""
    yield
    for path in store.glob(".ridgeline/applications/*.json"):
        found = json.loads(path.read_text())
        if found["state"] in {"starting", "running"} and Path(f"/proc/{found['pid']}").exists():
            os.kill(found["pid"], signal.SIGKILL)


@pytest.fixture
def master(tmp_path):
    """A master and a worker of Spark's standalone cluster on loopback; its URL."""
    port = free_port()
    url, started = f"spark://127.0.0.1:{port}", []

    def start(name, kind, *arguments):
        log = tmp_path / f"{name}.log"
        command = [str(SPARK / "bin" / "spark-class"), kind, *map(str, arguments)]
        variables = {**os.environ, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1"}
        variables |= {"PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m"}
        with log.open("wb") as out:
            started.append(Command(command, log=log, stdout=out, stderr=out, env=variables))
        return log

    options = ("--host", "127.0.0.1", "--webui-port", 0)
    log = start("master", "org.apache.spark.deploy.master.Master", *options, "--port", port)
    wait_until(lambda: "I have been elected leader" in log.read_text(), "the master")
    work = ("--cores", 3, "--memory", "1g", "--work-dir", tmp_path / "work", url)
    start("worker", "org.apache.spark.deploy.worker.Worker", *options, *work)
    wait_until(lambda: "Registering worker" in log.read_text(), "the worker")
    yield url
    for one in started:
        one.clean()


def entry(store, name="one"):
    return json.loads((store / ".ridgeline" / "applications" / f"{name}.json").read_text())


def committed(store, name="one"):
    last = last_of(store / name)
    return -1 if last is None else last.window_id


def row(call, name="one"):
    rows = json.loads(call("ps", "--json")[0])["apps"]
    return next(one for one in rows if one["name"] == name)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("_nothing_is_left")
def test_from_submit_to_the_next_submit_on_a_standalone_cluster(call, store, master, tmp_path):
    words = (
        *("submit", TINY, "--count", "0", "--name", "one", "--master", master, "--attribute", "window=50ms"),
        *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"),
        *("-D", f"total.path={tmp_path}/totals.txt"),
    )
    out, _ = call(*words)
    found = entry(store)
    assert f"one runs: run {found['run']}-1, at {found['address']}\n" in out
    assert f"  see it:  ridgeline top one --store {store}\n" in out
    assert (found["state"], found["application"], found["epoch"]) == ("running", "tiny", 1)
    assert found["cluster_id"].startswith("app-")
    assert "token" not in json.dumps(found)
    now = row(call)
    assert (now["state"], now["epoch"], now["master"]) == ("running", 1, master)

    _, error = call(*words, code=2)
    assert re.match(r"error: `one` runs already: process \d+ on `\S+`, run \w+-1, at http://", error)
    out, _ = call("get-app-info", "one", "--json")
    assert json.loads(out)["name"] == "tiny"

    wait_until(lambda: committed(store) >= 3, "three windows")
    out, _ = call("stop", "one")
    assert out == "one has ended\n"
    assert process_identity(found["pid"]) is None
    now = row(call)
    assert (now["state"], now["sentence"]) == ("ended", "it was stopped")
    _, error = call("stop", "one", code=2)
    assert "error: `one` does not run, it is ended: it was stopped;" in error

    before = committed(store)
    call(*words)
    assert entry(store)["epoch"] == 2
    wait_until(lambda: committed(store) > before, "a window more")
    os.kill(entry(store)["pid"], signal.SIGKILL)
    wait_until(lambda: row(call)["state"] == "dead", "word of its death")
    assert re.fullmatch(r"its process \d+ on `\S+` is gone", row(call)["sentence"])
    _, error = call("logs", "one")
    assert "`one` is dead: its process" in error

    before = committed(store)
    call(*words)
    assert entry(store)["epoch"] == 3
    wait_until(lambda: committed(store) > before, "a window more")
    _, error = call("kill", "one", code=2)
    assert "there is no terminal to ask at; give `--yes`" in error
    call("kill", "one", "--yes")
    assert row(call)["state"] == "failed"
    numbers = [int(line.split()[0]) for line in (tmp_path / "totals.txt").read_text().splitlines()]
    assert sorted(set(numbers)) == list(range(max(numbers) + 1))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("_nothing_is_left")
def test_of_two_submits_at_once_one_wins(ridgeline_process, store, call, tmp_path):
    words = ("submit", str(TINY), "--count", "0", "--name", "one", "--master", "local[2]")
    both = [ridgeline_process(*words, "-D", f"total.path={tmp_path}/totals.txt") for _ in range(2)]
    said = [one.communicate() for one in both]
    assert sorted(one.returncode for one in both) == [0, 2], said
    lost = next(error for one, (_, error) in zip(both, said, strict=True) if one.returncode)
    assert re.search(r"`one` (is starting|runs) already: process \d+|is being started by the process", lost)
    assert entry(store)["epoch"] == 1
    os.kill(entry(store)["pid"], signal.SIGSTOP)  # it answers nobody
    out, _ = call("kill", "one", "--yes")
    assert re.match(r"the process \d+ got SIGKILL\none has ended\n", out)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("_nothing_is_left")
@deeper
def test_a_standby_is_submitted_and_ends_with_its_application(call, store, tmp_path):
    words = ("submit", TINY, "--count", "0", "--name", "one", "--master", "local[2]", "--standby")
    totals = ("-D", f"total.path={tmp_path}/totals.txt")
    store.mkdir()
    out, _ = call(*words, *totals)
    assert "one runs: run " in out  # the first one finds the name free
    out, _ = call(*words, *totals)
    assert re.search(r"one: `one` runs: process \d+ on `\S+` since .*; this one waits as its standby\n", out)
    standby = int(re.search(r"started the driver, process (\d+)", out)[1])
    assert process_identity(standby)
    out, _ = call("stop", "one")
    assert out == "one has ended\n"
    wait_until(lambda: not process_identity(standby), "the end of the standby")
    assert entry(store)["start"] == 1


@pytest.mark.spark
@pytest.mark.slow
def test_a_driver_that_fails_says_why(call, tmp_path):
    words = ("submit", TINY, "--count", "0", "--name", "one", "--master", "local[2]", "-D", "total.fail_at=0")
    call(*words, "--attribute", "total.recovery_attempts=0", "--wait", code=1)
    found = row(call)
    assert found["state"] == "failed"
    assert "division by zero" in found["sentence"]
    out, error = call("logs", "one")
    assert "division by zero" in out
    assert "`one` is failed: " in error


IN_A_POD = ("--deploy-mode", "cluster", "--master", "k8s://https://h:1")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--store", ""), "`submit` needs a store"),
        (("--name", "a/b"), "`a/b` cannot be the name of an application in a store"),
        (("--deploy-mode", "clustr"), "`--deploy-mode clustr` is none; give `client` or `cluster`"),
        (
            ("--deploy-mode", "cluster"),
            "`--deploy-mode cluster` needs a cluster, and `local[*]` is this host",
        ),
        (("--deploy-mode", "cluster", "--master", "spark://h:1"), "starts no drivers in Python"),
        (("--deploy-mode", "cluster", "--master", "k8s://https://h:1"), "needs an image that has Ridgeline"),
        (
            (*IN_A_POD, "--conf", "spark.kubernetes.driverEnv.DB_PASSWORD=hunter2"),
            "give `--conf spark.kubernetes.driver.secretKeyRef.DB_PASSWORD=SECRET:KEY`",
        ),
        (
            (*IN_A_POD, "--conf", "spark.executorEnv.DB_PASSWORD=hunter2"),
            "give `--conf spark.kubernetes.executor.secretKeyRef.DB_PASSWORD=SECRET:KEY`",
        ),
        (
            ("--deploy-mode", "cluster", "--master", "k8s://https://h:1", "--supervise"),
            "Kubernetes starts the pod of a driver by Spark never again; leave it out and give the same",
        ),
        (
            ("--deploy-mode", "cluster", "--master", "k8s://https://h:1", "--event-log", "log.jsonl"),
            "`--event-log log.jsonl` would lie in a folder that is gone with the pod",
        ),
        (
            ("--deploy-mode", "cluster", "--master", "k8s://https://h:1", "--archives", "hdfs:///env.tar.gz"),
            "`--archives` comes too late for a driver in a pod; put the environment into the image",
        ),
        (("--deploy-mode", "cluster", "--master", "yarn"), "set `HADOOP_CONF_DIR` to the folder with"),
        (
            ("--deploy-mode", "cluster", "--master", "yarn", "--supervise"),
            "`--supervise` is for drivers of a host, and YARN starts a driver again by itself",
        ),
        (
            ("--deploy-mode", "cluster", "--master", "yarn", "--event-log", "log.jsonl"),
            "`--event-log log.jsonl` would lie in a folder that YARN removes at the end",
        ),
        (("--deploy-mode", "cluster", "--master", "other://h:1"), "with `other://h:1` is not there; submit"),
        (("--detach", "--wait"), "`--detach` and `--wait` exclude each other"),
        (("-D", "total.nothing=1"), "`Total` has no property `nothing`"),
    ],
)
def test_wrong_words_start_nothing(ridgeline_command, tmp_path, words, text):
    done = ridgeline_command("submit", TINY, "--store", tmp_path / "store", *words)
    assert done.exit_code == 2
    assert text in done.stderr
    assert not (tmp_path / "store" / ".ridgeline").exists()


def test_the_store_of_the_environment_is_for_submit_and_its_sisters_not_for_run(
    ridgeline_command, tmp_path, monkeypatch
):
    """Else each plain run would continue what another one has left there."""
    monkeypatch.setenv("RIDGELINE_STORE", str(tmp_path / "store"))
    wrong = ("--supervise", "-D", "total.nothing=1")
    assert "`--supervise` needs `--checkpoint`" in ridgeline_command("run", TINY, *wrong).stderr
    assert "`Total` has no property `nothing`" in ridgeline_command("submit", TINY, *wrong).stderr
    (tmp_path / "store").mkdir()
    assert ridgeline_command("ps").stdout == "there is no application in the store\n"
    assert "`submit` needs a store" in ridgeline_command("submit", TINY, "--store", "").stderr


def test_words_of_submit_alone_do_not_reach_the_driver():
    own = ["--wait", "--timeout", "5", "--token", "secret", "--name=a"]
    given = ["app.py", *own, "--master", "m", "-D", "a.b=1", "--", "--name", "x"]
    assert run_words(given) == ["app.py", "--master", "m", "-D", "a.b=1", "--", "--name", "x"]


def test_who_is_not_there_is_said(ridgeline_command, tmp_path):
    (tmp_path / "store").mkdir()
    done = ridgeline_command("stop", "one", "--store", tmp_path / "store")
    assert "there is no application `one` in the store" in done.stderr
    done = ridgeline_command("ps", "--store", tmp_path / "store")
    assert done.stdout == "there is no application in the store\n"
    done = ridgeline_command("ps", "--store", tmp_path / "none")
    assert "there is no folder" in done.stderr


def test_one_that_listens_on_another_host_only_is_not_asked(ridgeline_command, tmp_path):
    """Its loopback address is another machine here, which would get the token."""
    place = tmp_path / "store" / ".ridgeline" / "applications"
    place.mkdir(parents=True)
    made = {"name": "one", "application": "one", "start": 1, "state": "running", "run": "ab", "epoch": 1}
    made |= {"host": "elsewhere", "address": "http://127.0.0.1:9"}
    (place / "one.json").write_text(json.dumps(made))
    for words in (("attach", "one"), ("logs", "one"), ("get-app-info", "one")):
        done = ridgeline_command(*words, "--store", tmp_path / "store")
        assert done.exit_code == 2
        assert "cannot be asked from here: its web service listens for `elsewhere` alone" in done.stderr
    done = ridgeline_command("kill", "one", "--yes", "--store", tmp_path / "store")
    assert "run `ridgeline kill` there, or start it again with its checkpoint" in done.stderr


@pytest.mark.parametrize(
    ("master", "cluster_id", "text"),
    [
        ("yarn", "application_1700000000000_0042", "YARN did not end application_1700000000000_0042: "),
        (
            "k8s://https://h:1",
            "default:one-7-driver",
            "Kubernetes did not remove the pod `default:one-7-driver`: ",
        ),
    ],
    ids=["yarn", "kubernetes"],
)
def test_a_kill_that_the_cluster_does_not_do_is_taken_back(
    ridgeline_command, tmp_path, monkeypatch, master, cluster_id, text
):
    """The driver runs on, and the next attempt of YARN would end by the word that a user has ended it."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))  # so there is no client of YARN
    folder = EntryFolder(str(tmp_path / "store"))
    one = StoreEntry("one", "one", 1, "running", run="ab", epoch=1, heartbeat=time.time())
    one = replace(one, host="elsewhere", pid=7, process="x:7", address="http://127.0.0.1:9")
    one = replace(one, deploy_mode="cluster", master=master, cluster_id=cluster_id)
    folder.write(one)
    done = ridgeline_command("kill", "one", "--yes", "--store", tmp_path / "store")
    assert done.exit_code == 1
    assert text in done.stderr
    assert folder.read("one").entry == one
    assert not is_end_asked(folder, one)


def test_a_submission_that_yarn_does_not_get_leaves_no_secrets(ridgeline_command, tmp_path, monkeypatch):
    home = tmp_path / "home"
    given = {"JAVA_HOME": tmp_path / "none", "HADOOP_CONF_DIR": tmp_path, "RIDGELINE_HOME": home}
    for name, value in given.items():
        monkeypatch.setenv(name, str(value))
    words = ("--deploy-mode", "cluster", "--master", "yarn", "--conf", "spark.hadoop.x.secret.key=hush")
    done = ridgeline_command("submit", TINY, "--store", tmp_path / "store", "--name", "one", *words)
    assert done.exit_code == 1
    assert "`spark-submit` has ended with code 1" in done.stderr
    (left,) = (home / "submitted").glob("one-*/*")
    assert {path.name for path in left.iterdir()} == {"ridgeline_driver.py", "spark-submit.log", "token"}
    assert not [path for path in left.iterdir() if "hush" in path.read_text()]
