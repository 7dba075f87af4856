"""Spark on Kubernetes in client mode, with the words and the rights of the chart: executors are killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import ridgeline
from ridgeline.cli.load import load_application
from ridgeline.testing import run_local
from support.accounts.reports import Command, finished
from support.crash.processes import committed
from support.crash.rows import multisets
from support.depth import DEPTH
from support.kubernetes import BINARIES, PODS, ApiServer, Kubelet
from support.paths import ROOT, SUPPORT
from support.ports import free_port
from support.waiting import wait_until

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"
SOURCES = Path(ridgeline.__file__).parent.parent
RETRIES = [
    part for name in ("numbers", "sums", "store") for part in ("--attribute", f"{name}.recovery_attempts=3")
]
"""The default. On the driver's host a worker may die before its executor, which counts as an attempt."""


@pytest.fixture
def cluster(tmp_path):
    with ApiServer(tmp_path) as server, Kubelet(server, tmp_path) as kubelet:
        yield server, kubelet


def _chart(server, folder):
    """The objects of the chart, for this machine: its ports are free ones, its executors small."""
    properties = ("numbers.windows=1000000", "sums.pause_seconds=0.05", "store.roll_seconds=0.3")
    values = {
        "application": {
            "file": str(APPLICATION),
            "arguments": ["--output", str(folder / "output"), *RETRIES]
            + [part for value in properties for part in ("-D", value)],
        },
        "store": {"url": str(folder / "store")},
        "executors": {"instances": 3, "cores": 1, "memory": "512m"},
        "web": {"port": free_port()},
        "ports": {"driver": free_port(), "blockManager": free_port()},
        "spark": {
            "master": f"k8s://{server.url}",
            "conf": {
                "spark.kubernetes.trust.certificates": "true",
                "spark.executorEnv.PYTHONPATH": str(SOURCES),
                "spark.driver.host": "127.0.0.1",
            },
        },
    }
    given = folder / "values.json"
    given.write_text(json.dumps(values))
    words = [BINARIES / "helm", "template", "orders", ROOT / "deploy" / "helm" / "ridgeline", "-f", given]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return [*filter(None, yaml.safe_load_all(done.stdout))]


def _installed(server, made):
    """Make its objects; a pod stands for that of the Deployment, which a controller would make."""
    for one in made:
        status, answer = server.create(one)
        assert status == 201, (one["kind"], answer)
    template = next(one for one in made if one["kind"] == "Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**pod["metadata"], "name": "orders-0"}
    status, answer = server.create(pod)
    assert status == 201, answer
    return template["spec"]["containers"][0]["args"]


def _words(server, made, folder):
    """The words of the driver's pod, with what a kubelet puts in."""
    executor = folder / "executor.yaml"
    executor.write_text(next(
        one["data"]["executor.yaml"] for one in made
        if one["kind"] == "ConfigMap" and "executor.yaml" in one["data"]
    ))  # fmt: skip
    args = _installed(server, made)
    puts = {
        "$(POD_NAME)": "orders-0",
        "$(POD_IP)": "127.0.0.1",
        "/etc/ridgeline/executor/executor.yaml": str(executor),
    }
    for name, value in puts.items():
        args = [one.replace(name, value) for one in args]
    token = f"spark.kubernetes.authenticate.oauthToken={server.token_of('orders')}"
    return [*args, "--conf", token]


@pytest.fixture
def driver(cluster, tmp_path):
    """The driver, as a process of this host."""
    server, _ = cluster
    words = _words(server, _chart(server, tmp_path), tmp_path)
    log = tmp_path / "driver.log"
    with log.open("wb") as out:
        process = Command(
            [sys.executable, "-m", "ridgeline", *words],
            log=log, cwd=tmp_path, stdout=out, stderr=out, env=_environment(tmp_path),
        )  # fmt: skip
    yield process
    process.clean()


def _environment(folder):
    made = {**os.environ, "PYTHONPATH": str(SOURCES), "RIDGELINE_TOKEN": "secret" * 6}
    return made | {"RIDGELINE_STORE": str(folder / "store"), "PYSPARK_PYTHON": sys.executable}


def _ridgeline(folder, *words):
    done = finished([sys.executable, "-m", "ridgeline", *words], env=_environment(folder), cwd=folder)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def _state(folder):
    """That of `orders` by `ridgeline ps`, which also lists other applications of this host."""
    rows = [line.split() for line in _ridgeline(folder, "ps").splitlines()]
    return next(row[1] for row in rows if row[0] == "orders")


def test_killed_and_deleted_executors_are_replaced(cluster, driver, tmp_path):
    server, kubelet = cluster
    checkpoint = tmp_path / "store" / "orders"
    wait_until(lambda: driver.poll() is not None or committed(checkpoint) >= 0, "the application")
    assert driver.poll() is None, (tmp_path / "driver.log").read_text()

    def running():
        return {one["metadata"]["name"] for one in server.pods() if one["status"]["phase"] == "Running"}

    def lose(how, name):
        before = committed(checkpoint)
        how(name)
        wait_until(lambda: committed(checkpoint) >= before + 10, "ten windows more")
        wait_until(lambda: len(running() - {name}) == 3, "a pod in its place")

    def killed(name):
        os.kill(kubelet.processes[name].pid, signal.SIGKILL)

    def deleted(name):
        assert server.ask(f"{PODS}/{name}", method="DELETE")[0] == 200

    wait_until(lambda: len(running()) == 3, "three executors")
    wait_until(lambda: committed(checkpoint) >= 10, "ten windows")
    for how in (killed, deleted, *[killed] * (7 if DEPTH > 1 else 0)):  # by default Spark ends after six
        lose(how, min(running()))
    assert _state(tmp_path) == "running"
    assert "is lost" in _ridgeline(tmp_path, "logs", "orders")
    _ridgeline(tmp_path, "stop", "orders")
    assert driver.wait() == 0
    assert _state(tmp_path) == "ended"
    wait_until(lambda: not server.pods(), "the end of its pods")
    asked = server.asked_by("orders")
    assert not {one for one in asked if one[2] == 403}
    assert ("pods", "create", 201) in asked

    windows = committed(checkpoint) + 1
    run_local(
        load_application(str(APPLICATION), ["--output", str(tmp_path / "whole")]),
        properties={"numbers.windows": str(windows)},
    )
    assert multisets(tmp_path / "output") == multisets(tmp_path / "whole")
