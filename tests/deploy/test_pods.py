"""Pods as containers, without a runtime: roots of their own, read-only, and the user of the image."""

import base64
import errno
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from ridgeline.cli.load import load_application
from ridgeline.testing import run_local
from support.containers import IMAGE, USER, need_namespaces
from support.crash.processes import committed
from support.crash.rows import multisets
from support.kubernetes import BINARIES, PODS, ApiServer, ContainerKubelet
from support.paths import ROOT, SUPPORT
from support.ports import free_port

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"
PROPERTIES = ("numbers.windows=1000000", "sums.pause_seconds=0.05", "store.roll_seconds=0.3")
OPTIONS = [part for value in PROPERTIES for part in ("-D", value)]
OPTIONS += [
    part for name in ("numbers", "sums", "store") for part in ("--attribute", f"{name}.recovery_attempts=3")
]
TOKEN = "t" * 32


@pytest.fixture
def store(tmp_path, monkeypatch):
    """The volume of the claim `shared`, which is the image's user's, as `fsGroup` makes it."""
    monkeypatch.setenv("RIDGELINE_TRUST", str(USER))  # whose files this test reads
    folder = tmp_path / "store"
    folder.mkdir()
    os.chown(folder, USER, USER)
    return folder


@pytest.fixture
def cluster(tmp_path, store):
    need_namespaces()
    with ApiServer(tmp_path) as server, ContainerKubelet(server, tmp_path, {"shared": store}) as kubelet:
        yield server, kubelet


@pytest.fixture
def entry(store):
    """`entry("sums")`: what the store says of an application; {} before it does."""

    def read(name):
        path = store / ".ridgeline" / "applications" / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else {}

    return read


def chart(folder, values):
    given = folder / "values.json"
    given.write_text(json.dumps(values))
    words = [BINARIES / "helm", "template", "orders", ROOT / "deploy" / "helm" / "ridgeline", "-f", given]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return [*filter(None, yaml.safe_load_all(done.stdout))]


def install(server, made):
    for one in made:
        status, answer = server.create(one)
        assert status == 201, (one["kind"], answer)


def expect_same(store, checkpoint, folder):
    windows = committed(checkpoint) + 1
    run_local(
        load_application(str(APPLICATION), ["--output", str(folder / "whole")]),
        properties={"numbers.windows": str(windows)},
    )
    assert multisets(store / "output") == multisets(folder / "whole")


def status_of(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def expect_closed(pid):
    """A process of the image's user, without rights, whose root cannot be written."""
    status = status_of(pid)
    assert status["Uid"].split() == status["Gid"].split() == [str(USER)] * 4
    assert (int(status["CapEff"], 16), int(status["CapBnd"], 16), status["NoNewPrivs"]) == (0, 0, "1")
    for folder in ("/", "/etc", "/usr", "/opt/spark/conf", IMAGE["PYTHONPATH"], sys.prefix):
        if Path(f"/proc/{pid}/root{folder}").is_dir():
            with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
                Path(f"/proc/{pid}/root{folder}/written").touch()


def asked(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_the_charts_pods_run_as_their_user_with_roots_that_are_read_only(
    cluster, store, entry, wait_until, tmp_path
):
    server, kubelet = cluster
    port = free_port()
    made = chart(tmp_path, {
        "application": {
            "files": {"app.py": APPLICATION.read_text()},
            "arguments": ["--output", "/store/output", *OPTIONS],
        },
        "store": {"url": "/store", "claim": "shared"},
        "executors": {"instances": 3, "cores": 1, "memory": "512m"},
        "web": {"port": port, "tokenSecret": "tokens"},
        "ports": {"driver": free_port(), "blockManager": free_port()},
        "spark": {
            "master": f"k8s://{server.url}", "conf": {"spark.kubernetes.trust.certificates": "true"},
        },
    })  # fmt: skip
    token = base64.b64encode(TOKEN.encode()).decode()
    install(server, [*made, {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tokens"}, "data": {"token": token},
    }])  # fmt: skip
    template = next(one for one in made if one["kind"] == "Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}  # which a controller would make
    pod["metadata"] = {**pod["metadata"], "name": "orders-0"}
    install(server, [pod])

    wait_until(lambda: entry("orders").get("state") == "running", "the application")
    wait_until(lambda: committed(store / "orders") >= 10, "ten windows")
    assert (asked(port, "/healthz"), asked(port, "/readyz"), asked(port, "/info")) == (200, 200, 401)
    driver = kubelet.processes["orders-0"]
    executors = [one for name, one in kubelet.processes.items() if name != "orders-0" and one.poll() is None]
    assert len(executors) == 3
    for one in (driver, *executors):
        expect_closed(one.pid)
    workers = [one.pid for each in executors for one in each.members() if one.pid != each.pid]
    assert workers
    for one in workers:
        expect_closed(one)

    assert server.ask(f"{PODS}/orders-0", method="DELETE")[0] == 200
    wait_until(lambda: driver.poll() is not None, "the end of the driver")
    assert driver.returncode == 0
    assert (entry("orders")["state"], entry("orders")["reason"]) == ("ended", "it was stopped")
    wait_until(lambda: not server.pods(), "the end of its executors")
    expect_same(store, store / "orders", tmp_path)
