"""The chart, the image and the command that they run fit together."""

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
import yaml
from packaging.requirements import Requirement
from typer.testing import CliRunner

from ridgeline.cli.errors import FAILED, NOT_VALID
from ridgeline.cli.main import app
from ridgeline.service.http import guard
from support.kubernetes import BINARIES, ApiServer
from support.paths import ROOT

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "ridgeline"
HELPERS = (CHART / "templates" / "_helpers.tpl").read_text()
ALL = {
    "store.url": "/store",
    "store.claim": "shared",
    "store.secret": "s3",
    "web.tokenSecret": "tokens",
    "web.tokensSecret": "roles",
    "web.tlsSecret": "tls",
    "application.files.app\\.py": "app = 1",
    "image.pullSecrets[0]": "registry",
}


def test_options_of_the_chart_are_those_of_the_command():
    shown = CliRunner().invoke(app, ["run", "--help-all"], env={"COLUMNS": "200"}).stdout
    options = set(re.findall(r'"(--[a-z-]+)"', HELPERS))
    assert {"--store", "--store-name", "--tokens", "--web-cert"} <= options
    assert not {one for one in options if one not in shown}


def test_probes_ask_paths_that_the_service_answers_without_a_token():
    asked = re.findall(r'"path" "(/[a-z]+)"', HELPERS)
    assert asked == ["/healthz", "/readyz"]
    assert not {*asked} - guard._OPEN


def test_a_job_is_not_started_again_after_codes_that_another_start_does_not_mend():
    driver = (CHART / "templates" / "driver.yaml").read_text()
    (values,) = re.findall(r"operator: In, values: \[([0-9, ]+)\]", driver)
    assert [*map(int, values.split(","))] == [FAILED, NOT_VALID]


def test_values_are_those_of_the_schema():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(schema["properties"]) - {"global"} == set(values)
    for name, part in schema["properties"].items():
        if part.get("additionalProperties") is False:
            assert set(part["properties"]) == set(values[name]), name


def test_what_the_image_copies_is_there():
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    here = [one for one in copied if not one.startswith(("--", "/"))]
    assert "deploy/entrypoint.sh" in here
    assert all((ROOT / one).exists() for one in here)
    assert os.access(DEPLOY / "entrypoint.sh", os.X_OK)


def test_the_image_gets_one_version_of_each_package(tmp_path):
    """Some packages are locked once for each of some versions of Python."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    words = shlex.split(next(line for line in lines if line.startswith("RUN sed ")).rstrip("\\"))
    script = words[words.index("-n") + 1]
    lock = ROOT / "requirements" / "dev.lock"
    done = subprocess.run(["sed", "-n", script, lock], capture_output=True, text=True, check=True)
    found = [Requirement(line) for line in done.stdout.splitlines()]
    image = {"python_version": "3.11", "python_full_version": "3.11.9", "sys_platform": "linux"}
    names = [one.name for one in found if one.marker is None or one.marker.evaluate(image)]
    assert "numpy" in names
    assert len(names) == len({*names})


def test_the_entrypoint_keeps_words_and_options_of_java_whole(tmp_path):
    echo = tmp_path / "bin" / "java"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nfor one in "$@"; do printf "%s\\n" "$one"; done\n')
    echo.chmod(0o755)
    names = ("DRIVER_URL", "APPLICATION_ID", "EXECUTOR_ID", "EXECUTOR_CORES", "EXECUTOR_POD_IP")
    names += ("EXECUTOR_POD_NAME", "EXECUTOR_MEMORY", "RESOURCE_PROFILE_ID")
    said = {f"SPARK_{name}": name.lower() for name in names}
    said |= {"JAVA_HOME": str(tmp_path), "RIDGELINE_COMMAND": str(echo), "SPARK_HOME": "/s p"}
    said |= {f"SPARK_JAVA_OPT_{number}": f"-Dn={number} a $x" for number in range(11)}
    script = DEPLOY / "entrypoint.sh"

    def lines(*words):
        done = subprocess.run([script, *words], env=said, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    started = lines("executor")
    assert started[:11] == [f"-Dn={number} a $x" for number in range(11)]
    assert started[11:15] == ["-Xmsexecutor_memory", "-Xmxexecutor_memory", "-cp", "/s p/jars/*"]
    assert started[-2:] == ["--podName", "executor_pod_name"]
    assert lines("run", "a b.py") == ["run", "a b.py"]


def _helm(*words, values, code=0):
    if not (helm := shutil.which("helm", path=f"{BINARIES}{os.pathsep}{os.environ['PATH']}")):
        pytest.skip("there is no helm; name a folder with it in KUBERNETES_BINARIES")
    given = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    done = subprocess.run([helm, *words, *given], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def _objects(values):
    return [*filter(None, yaml.safe_load_all(_helm("template", "orders", CHART, values=values)))]


@pytest.mark.slow
def test_wrong_values_are_refused():
    _helm("lint", "--strict", CHART, values=ALL)
    for values, text in (
        ({}, "url"),
        ({"store.url": "s3a://b/s", "store.claim": "shared"}, "must be a folder such as /store"),
        ({"store.url": "/s", "replicas": 2}, "replicas"),
        ({"store.url": "/s", "web.prot": 1}, "prot"),
        ({"store.url": "/s", "serviceMonitor.enabled": "true"}, "serviceMonitor needs `web.tokenSecret`"),
    ):
        assert text in _helm("template", "orders", CHART, values=values, code=1)


@pytest.fixture(scope="module")
def api_server(tmp_path_factory):
    """`post(object)`: the status and the answer of a real API server's strict dry run."""
    with ApiServer(tmp_path_factory.mktemp("kubernetes")) as server:
        yield lambda one: server.create(one, "?dryRun=All&fieldValidation=Strict")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "given"),
    [*itertools.product(["Deployment", "Job"], [{"store.url": "s3a://b/s"}, ALL])],
    ids=["least", "all", "job", "job-all"],
)
def test_a_real_api_server_takes_the_manifests(api_server, kind, given):
    made = _objects({**given, "kind": kind})
    kinds = {"ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Service", kind}
    assert {one["kind"] for one in made} == kinds
    executor = next(
        yaml.safe_load(one["data"]["executor.yaml"])
        for one in made
        if one["kind"] == "ConfigMap" and "executor.yaml" in one["data"]
    )
    executor["metadata"]["name"] = "executor"
    executor["spec"]["containers"][0]["image"] = "spark-sets-it"
    for one in (*made, executor):
        status, answer = api_server(one)
        assert status == 201, (one["kind"], answer)


@pytest.mark.slow
def test_a_real_api_server_refuses_a_misspelt_field(api_server):
    made = next(one for one in _objects({"store.url": "/store"}) if one["kind"] == "Deployment")
    made["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    status, answer = api_server(made)
    assert status == 400
    assert "readinesProbe" in answer
