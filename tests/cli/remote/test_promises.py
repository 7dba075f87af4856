"""The commands about promises, against the real service of a run and against files."""

import json

import pytest
import yaml

from ridgeline.cli.views.screen import promise_lines
from ridgeline.measure.events import PromiseChanged
from support.cli.windows import make_plan, watch_of, window

PLAN = make_plan()
pytestmark = pytest.mark.usefixtures("utc")
FILE = """
from typing import NamedTuple
from ridgeline import Application
from ridgeline.sla import caught_up_within, latency
from ridgeline.testing import CollectorSink, ListInput

class Payment(NamedTuple):
    cents: int

app = Application("payments")
source = app.add_operator("source", ListInput(Payment, [(1,)]))
store = app.add_operator("store", CollectorSink(Payment))
app.add_stream("payments", source.output, store.input)
app.promise(latency("store", p99="2s"), caught_up_within("10m"))
"""


def changed(at, kept, figure=None):
    return PromiseChanged(at, "latency_p99:store", "latency", "store", kept, figure, 2.0, "s")


@pytest.fixture
def running(serve):
    def running(*events):
        windows = [event for number in range(3) for event in window(PLAN, number, at=0.5 * number)]
        return serve(watch_of(PLAN, [*windows, *events]), PLAN)

    return running


def test_promises_are_shown_with_since_when(ridgeline_command, running):
    running(changed(0.1, None), changed(0.2, True, 1.0), changed(0.3, False, 3.0), changed(0.8, True, 1.5))
    result = ridgeline_command("promises")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "latency_p99:store" in result.stdout
    assert "at most 2 s" in result.stdout
    (row,) = json.loads(ridgeline_command("promises", "--json").stdout)["promises"]
    assert row["brokenSeconds"] == pytest.approx(0.5)
    assert (row["kept"], row["since"], row["figure"], row["timesBroken"]) == (True, 0.8, 1.5, 1)


@pytest.mark.parametrize(
    ("kept", "shown"),
    [(False, ["promise latency_p99:store is broken for 2.00 s"]), (True, ["1 promise kept"]), (None, [])],
)
def test_the_screen_shows_what_is_broken_and_that_all_is_kept(kept, shown):
    overview = watch_of(PLAN, [*window(PLAN), changed(0.1, kept, 3.0)]).overview()
    lines = promise_lines({**overview, "at": overview["promises"][0]["since"] + 2.0})
    assert [line.plain for line in lines] == shown


def test_alert_rules_of_a_file_and_of_a_running_application_are_equal(ridgeline_command, running, tmp_path):
    entry = running(changed(0.1, None))
    file = tmp_path / "payments.py"
    file.write_text(FILE)
    of_file = yaml.safe_load(ridgeline_command("alert-rules", str(file)).stdout)["groups"][0]["rules"]
    of_running = yaml.safe_load(ridgeline_command("alert-rules", entry.url).stdout)["groups"][0]["rules"]
    promised = [rule["labels"]["promise"] for rule in of_file if "promise" in rule["labels"]]
    assert promised == ["latency_p99:store", "caught_up_within"]
    for one, other in zip(of_running[:6], of_file[:6], strict=True):
        assert one["expr"].replace(PLAN.logical.application, "payments") == other["expr"]
