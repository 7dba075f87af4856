"""What is set in a running application, and where a container is."""

import json

import pytest

from support.cli.windows import make_plan, watch_of, window

PLAN = make_plan()


@pytest.fixture(autouse=True)
def _numbers(serve):
    serve(watch_of(PLAN, window(PLAN, 0, at=0.5), now=1.0), PLAN)


def test_what_is_set(ridgeline_command):
    assert ridgeline_command("get-app-attributes", "numbers", "windows_kept").stdout == "windows_kept  5\n"
    shown = ridgeline_command("get-operator-attributes", "numbers", "double").stdout
    assert ["partitions", "2"] in [line.split() for line in shown.splitlines()]
    assert ridgeline_command("get-operator-properties", "numbers", "double").stdout == "there is none\n"
    answer = ridgeline_command("get-port-attributes", "numbers", "double", "output", "--json").stdout
    assert json.loads(answer)["unifier.recovery_attempts"] == 3
    result = ridgeline_command("get-port-attributes", "numbers", "double", "output", "no_such")
    assert (result.exit_code, "port `double.output` has no attribute `no_such`" in result.stderr) == (2, True)
    result = ridgeline_command("get-operator-attributes", "numbers", "duoble")
    assert (result.exit_code, "duoble" in result.stderr) == (2, True)


def test_where_a_container_is(ridgeline_command):
    shown = ridgeline_command("get-stack", "numbers", "0").stdout
    assert shown == "container 0 has said nothing yet of where it is\n"
    assert ridgeline_command("get-stack", "numbers", "77").exit_code == 2
