"""The commands about promises, against the real service of a run."""

import json

import pytest

from ridgeline.cli.views.screen import promise_lines
from ridgeline.measure.events import PromiseChanged
from support.cli.windows import make_plan, watch_of, window

PLAN = make_plan()
pytestmark = pytest.mark.usefixtures("utc")


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
