"""The commands about a running application, against the real service of a run that was watched."""

import io
import json
import os
import threading

import pytest
from rich.console import Console

from ridgeline.cli.errors import CommandError
from ridgeline.cli.remote import watching
from ridgeline.cli.remote.client import Client
from ridgeline.measure.events import ApplicationChanged, ApplicationEnded, ContainerHeartbeat, LineTime
from ridgeline.service import registry
from support.cli.windows import make_plan, watch_of, window
from support.service.watched import watched

PLAN = make_plan()
ASKING = {
    "get-app-info": "/info",
    "list-containers": "/physicalPlan/containers",
    "critical-path": "/criticalPath",
    "latency": "/latency",
    "record-age": "/recordAge",
    "progress": "/progress",
    "metrics": "/metrics",
    "windows": "/windows",
}

pytestmark = pytest.mark.usefixtures("utc")


@pytest.fixture
def watch():
    events = [
        event
        for number in range(3)
        for event in window(PLAN, number, at=0.5 * number, progress=(10.0 * number, 90.0))
    ]
    return watch_of(PLAN, events)


@pytest.fixture
def running(serve, watch):
    return serve(watch, PLAN)


@pytest.mark.parametrize("command", [*ASKING, "list-operators"])
def test_json_is_what_the_service_answers(ridgeline_command, running, watch, command):
    result = ridgeline_command(command, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == Client(running.url).get(
        ASKING.get(command, "/physicalPlan/operators")
    )


def lines(result):
    assert (result.exit_code, result.stderr) == (0, "")
    return [line.rstrip() for line in result.stdout.splitlines()]


@pytest.mark.guide("002", "Running an application")
def test_applications_are_found_in_the_registry(ridgeline_command, running):
    found = lines(ridgeline_command("ps"))
    assert found[1].split()[:2] == ["numbers", "running"]
    [app] = json.loads(ridgeline_command("ps", "--json").stdout)["apps"]
    assert (app["name"], app["address"], app["pid"]) == ("numbers", running.url, os.getpid())
    assert "token" not in app


@pytest.mark.guide("002", "Security")
def test_the_token_comes_from_the_registry_an_option_or_the_environment(
    ridgeline_command, serve, watch, monkeypatch
):
    assert ridgeline_command("get-app-info", serve(watch, PLAN, token="one").url).exit_code == 0
    url = serve(watch, PLAN, token="two", registered=False).url
    result = ridgeline_command("get-app-info", url)
    assert result.exit_code == 2
    assert "asks for a token; give the one that was shown when" in result.stderr
    assert ridgeline_command("get-app-info", url, "--token", "two").exit_code == 0
    monkeypatch.setenv("RIDGELINE_TOKEN", "two")
    assert ridgeline_command("get-app-info", url).exit_code == 0


def test_an_application_that_is_gone(ridgeline_command, serve, watch):
    server = serve(watch, PLAN)
    server.close()
    result = ridgeline_command("latency", server.url)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: nothing answers at `{server.url}`; has the application ended?")


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:port", "http://host:0"])
def test_what_is_no_address(url):
    with pytest.raises(CommandError, match="is no address of an application; give `http://host:port`"):
        Client(url)


@pytest.mark.usefixtures("running")
def test_what_is_set_and_where_a_container_is(ridgeline_command):
    shown = lines(ridgeline_command("dump-config", "numbers", "--operator", "doub*"))
    assert ["operator.double.partitions", "=", "2"] in [line.split()[:3] for line in shown]
    assert "application.windows_kept = 5" in lines(ridgeline_command("dump-config", "numbers"))
    assert "slowest operator " in ridgeline_command("status", "numbers").stdout
    shown = ridgeline_command("get-stack", "numbers", "0").stdout
    assert shown == "container 0 has said nothing yet of where it is\n"
    for words, reason in (
        (("dump-config", "numbers", "-D", "double.factor=2"), "`numbers` runs"),
        (("get-stack", "numbers", "77"), "77"),
    ):
        result = ridgeline_command(*words)
        assert (result.exit_code, reason in result.stderr) == (2, True), words


def test_plans(ridgeline_command, running):
    shown = [line.split() for line in lines(ridgeline_command("plan", "numbers"))]
    assert [words[0] for words in shown[:3]] == ["operator", "source", "double"]
    assert shown.count(["doubled", "double.output", "sink.input"]) == 1
    assert shown[-1] == ["doubled", "double.output#unifier.output", "sink.input"]
    plans = json.loads(ridgeline_command("plan", "numbers", "--json").stdout)
    assert {*plans} == {"logicalPlan", "physicalPlan"}


def test_metrics_that_operators_declare(ridgeline_command, serve):
    measured, plan, _, _ = watched()
    serve(measured, plan)
    _, taken, accounts = ridgeline_command("metrics").stdout.splitlines()
    assert taken.split()[:4] == ["balances.taken", "30", "150", "cents"]
    assert accounts.split()[:2] == ["balances.accounts", "2"]
    (only,) = ridgeline_command("metrics", "payments", "balances.acc*").stdout.splitlines()[1:]
    assert only.split() == accounts.split()
    result = ridgeline_command("metrics", "payments", "balances.takn")
    assert result.exit_code == 2
    assert "no metric of an operator matches `balances.takn`" in result.stderr


def test_watching_ends_with_the_application(ridgeline_command, running, watch):
    watch.observe(ApplicationEnded(9.0, "finished"))
    overview, *rest = ridgeline_command("top", "--json").stdout.splitlines()
    assert rest == []
    assert json.loads(overview)["windowId"] == 2
    (double,) = [row["id"] for row in watch.operators() if row["operator"] == "double[1]"]
    hot = LineTime(double, "/srv/double.py", 7, "Double.double", "slow()", 2.0)
    watch.observe(ContainerHeartbeat(9.0, -1, "worker-1", 7, 9.0, lines=(hot,)))
    shown = lines(ridgeline_command("top"))
    assert any(line.startswith("hot line of double double.py:7 slow(): 100% of its time") for line in shown)
    assert any(line.startswith("critical path source 1.0 ms > double[1] 7.0 ms") for line in shown)


def test_top_on_a_terminal(running, watch, monkeypatch, wait_until):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, height=40)
    monkeypatch.setattr(watching, "make_console", lambda: console)
    looking = threading.Thread(target=watching.top, args=(Client(running.url),), kwargs={"as_json": False})
    looking.start()
    try:
        wait_until(lambda: "critical path" in screen.getvalue(), "the screen")
        watch.observe(ApplicationChanged(8.0, 1, "ann", "", "pause", "APPLIED"))  # no window says it
        wait_until(lambda: "paused" in screen.getvalue(), "the pause")
    finally:
        watch.observe(ApplicationEnded(9.0, "finished"))
        looking.join()
    text = screen.getvalue()
    assert "Ctrl-C leaves; the application goes on" in text
    assert "double.output#unifier" in text
    assert text.endswith("numbers: finished\n")


@pytest.mark.guide("002", "Multi-Tenancy and Security")
def test_the_registry_is_the_users(running):
    assert [entry.name for entry in registry.running()] == ["numbers"]
