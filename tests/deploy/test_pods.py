"""Pods as containers, without a runtime: roots of their own, read-only, and the user of the image."""

import base64
import errno
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from ridgeline.cli.load import load_application
from ridgeline.testing import run_local
from support.accounts.reports import finished
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
SECRET = f"hunter2-of-the-store-{os.getpid()}"  # tests beside this one have their own
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


@pytest.fixture
def command(cluster, store, tmp_path):
    """`command("ps")`: what a command prints on a host beside the cluster."""
    server, _ = cluster
    environment = {**os.environ, "KUBECONFIG": str(server.configuration()), "RIDGELINE_STORE": str(store)}
    environment |= {"RIDGELINE_HOME": str(tmp_path / "home")}
    environment |= {"PYTHONPATH": IMAGE["PYTHONPATH"], "PYSPARK_PYTHON": sys.executable}

    def call(*words, code=0):
        done = finished([sys.executable, "-m", "ridgeline", *words], env=environment, cwd=tmp_path)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    return call


@pytest.fixture
def words(cluster, store, tmp_path):
    """The submission; the driver has the rights that the chart gives."""
    server, _ = cluster
    install(server, [
        one for one in chart(tmp_path, {"store": {"url": "/store"}})
        if one["kind"] in {"ServiceAccount", "Role", "RoleBinding"}
    ])  # fmt: skip
    settings = {
        "spark.kubernetes.container.image": "ridgeline:0",
        "spark.kubernetes.authenticate.driver.serviceAccountName": "orders",
        "spark.kubernetes.driver.master": server.url,
        "spark.kubernetes.trust.certificates": "true",
        "spark.driver.memory": "512m",
        "spark.driver.port": str(free_port()),
        "spark.driver.blockManager.port": str(free_port()),
        "spark.executor.instances": "3",
        "spark.executor.memory": "512m",
        "spark.hadoop.planted.secret.key": SECRET,
        "spark.hadoop.planted.address": f"http://ann:{SECRET}@host/",
    }
    for role in ("driver", "executor"):
        volume = f"spark.kubernetes.{role}.volumes.persistentVolumeClaim.store"
        settings |= {f"{volume}.mount.path": str(store), f"{volume}.options.claimName": "shared"}
    found = ["submit", str(APPLICATION), "--name", "sums", "--deploy-mode", "cluster", *OPTIONS]
    found += ["--master", f"k8s://{server.url}"]
    found += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    return [*found, "--", "--output", str(store / "output")]


def test_a_driver_in_a_pod_is_found_by_name_and_continued_by_the_same_command(
    cluster, command, entry, words, store, wait_until, tmp_path
):
    server, kubelet = cluster
    checkpoint = store / "sums"
    out = command(*words)
    found = entry("sums")
    namespace, pod = found["cluster_id"].split(":")
    assert f"sums: Kubernetes has taken it as default:{pod}" in out
    assert f"sums runs: run {found['run']}-1, at http://127.0.0.1:" in out
    assert (namespace, found["deploy_mode"], found["state"]) == ("default", "cluster", "running")
    (left,) = (tmp_path / "home" / "submitted").glob("sums-*/*")
    assert {path.name for path in left.iterdir()} == {"spark-submit.log", "token"}
    token = (left / "token").read_text()
    (secret,) = json.loads(server.ask("/api/v1/namespaces/default/secrets")[1])["items"]
    assert [one["name"] for one in secret["metadata"]["ownerReferences"]] == [pod]
    readable = [server.ask(f"/api/v1/namespaces/default/{kind}")[1] for kind in ("configmaps", "pods")]
    readable += [path.read_text(errors="replace") for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [text for text in readable if SECRET in text or token in text]
    (row,) = json.loads(command("ps", "--json"))["apps"]
    assert (row["state"], row["deploy_mode"]) == ("running", "cluster")
    assert row["says"] in {"starting", "ok", "behind"}  # its web service has answered
    command("logs", "sums")
    assert status_of(kubelet.processes[pod].pid)["Uid"].split() == [str(USER)] * 4

    wait_until(lambda: committed(checkpoint) >= 5, "windows")
    os.killpg(kubelet.processes[pod].pid, signal.SIGKILL)  # as the end of its node
    wait_until(lambda: json.loads(command("ps", "--json"))["apps"][0]["state"] == "dead", "a word of its end")
    assert "the same `ridgeline submit` continues" in command("ps", "--json")
    assert f"`kubectl logs {pod} -n default` shows what its driver printed" in command("logs", "sums", code=2)
    before = committed(checkpoint)
    command(*words)
    assert entry("sums")["epoch"] == 2
    wait_until(lambda: committed(checkpoint) > before + 5, "more windows")
    assert "sums runs already" in command(*words, code=2).replace("`", "")
    assert "sums has ended" in command("stop", "sums")
    last = entry("sums")["cluster_id"].partition(":")[2]
    wait_until(lambda: server.found("pods", last)["status"]["phase"] == "Succeeded", "the end of its pod")
    left = "those of the driver that was killed have ended, too: nothing removes them before its pod"
    wait_until(lambda: {one["status"]["phase"] for one in server.pods()} <= {"Succeeded", "Failed"}, left)
    assert not {one for one in server.asked_by("orders") if one[2] == 403}
    expect_same(store, checkpoint, tmp_path)


def test_a_driver_in_a_pod_that_cannot_be_reached_is_ended_by_kubernetes(
    cluster, command, entry, words, store, wait_until
):
    server, kubelet = cluster
    command(*words)
    wait_until(lambda: committed(store / "sums") >= 5, "windows")
    pod = entry("sums")["cluster_id"].partition(":")[2]
    os.killpg(kubelet.processes[pod].pid, signal.SIGSTOP)
    assert f"Kubernetes removes the pod default:{pod}" in command("kill", "sums", "--yes")
    assert server.found("pods", pod) is None
    assert entry("sums")["state"] == "failed"
    assert "killed by" in entry("sums")["reason"]


RULES = {
    "nothing": [],
    "secrets": [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ],
    "all": [
        {"apiGroups": [""], "resources": ["pods", "services", "configmaps", "secrets"], "verbs": ["*"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["*"]},
    ],
}


def account_of(name, rules):
    """A service account that may do what the rules say."""
    group, about = "rbac.authorization.k8s.io", {"metadata": {"name": name}}
    role = {"apiGroup": group, "kind": "Role", "name": name}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]
    yield {"apiVersion": "v1", "kind": "ServiceAccount", **about}
    yield {"apiVersion": f"{group}/v1", "kind": "Role", **about, "rules": rules}
    yield {"apiVersion": f"{group}/v1", "kind": "RoleBinding", **about, "roleRef": role, "subjects": subjects}


def test_what_kubernetes_refuses_is_said_and_leaves_no_secret(tmp_path, monkeypatch):
    """Without a kubelet: no pod ever starts."""
    with ApiServer(tmp_path) as server:
        for account, rules in RULES.items():
            install(server, account_of(account, rules))
        environment = {**os.environ, "RIDGELINE_STORE": str(tmp_path / "store")}
        environment |= {"RIDGELINE_HOME": str(tmp_path / "home"), "PYTHONPATH": IMAGE["PYTHONPATH"]}

        def submit(account, master=server.url, timeout=60):
            token = server.token_of(account)
            given = {**environment, "KUBECONFIG": str(server.configuration(token))}
            words = ["submit", APPLICATION, "--name", "sums", "--deploy-mode", "cluster"]
            words += ["--master", f"k8s://{master}", "--timeout", timeout, *OPTIONS]
            words += ["--conf", "spark.kubernetes.container.image=x", "--", "--output", "/store/output"]
            return finished([sys.executable, "-m", "ridgeline", *words], env=given, cwd=tmp_path)

        def left():
            found = {
                kind: server.ask(f"/api/v1/namespaces/default/{kind}")[1] for kind in ("secrets", "pods")
            }
            return {
                kind: [one["metadata"]["name"] for one in json.loads(text)["items"]]
                for kind, text in found.items()
            }

        for account, master, code, text in (
            (
                "all",
                f"https://127.0.0.1:{free_port()}",
                1,
                "secrets`: Connection refused",
            ),
            ("nothing", server.url, 1, 'cannot create resource "secrets"'),
            ("secrets", server.url, 1, "`spark-submit` has ended with code 1"),
        ):
            done = submit(account, master)
            print(account, done.returncode, done.stdout, done.stderr)
            assert done.returncode == code
            assert text in done.stderr
            assert left() == {"secrets": [], "pods": []}
        done = submit("all", timeout=60)
        print(done.stdout, done.stderr)
        assert done.returncode == 1
        assert "does not run after 60 s, and Kubernetes tries on; see `" in done.stderr
        assert "or end it by `kubectl delete pod sums-" in done.stderr
