"""An application that really runs, in process, while its plan changes: the figures of its own events."""

from random import Random

import pytest

from ridgeline.measure.encoding import from_dict, to_dict
from ridgeline.measure.events import ApplicationChanged, ApplicationPlanned
from ridgeline.measure.measurement import Measurement
from ridgeline.observe.watch import Watch
from ridgeline.plan.edits import AddOperator, AddSink, RemoveOperator, Repartition, SetProperty
from ridgeline.testing import Faults, run_local
from support.depth import deep
from support.service.live import TUPLES, application
from support.service.watched import serving

WINDOWS = 24
CHANGES = {
    5: [SetProperty("sums", "factor", 2)],
    8: [Repartition("sums", 3)],
    12: [AddOperator("audit", {"class": "support.service.live.Audit"}), AddSink("numbers", "audit.input")],
    15: [Repartition("sums", 2)],
    17: [Repartition("nobody", 2)],
    19: [RemoveOperator("audit")],
}


@pytest.fixture(scope="module")
def run():
    return run_local(application(), windows=WINDOWS, changes=CHANGES)


def test_every_window_is_there_with_its_plan(run):
    windows = run.watch.windows()
    assert [row["windowId"] for row in windows] == list(range(WINDOWS))
    versions = [row["planVersion"] for row in windows]
    boundaries = [window for window in range(1, WINDOWS) if versions[window] != versions[window - 1]]
    assert boundaries == [5, 8, 12, 15, 19]
    assert versions == sorted(versions)
    for window in range(WINDOWS):
        answer = run.watch.window(window)
        titles = [row["operator"] for row in answer["operators"]]
        assert ("audit" in titles) == (12 <= window < 19)
        assert ("sums[2]" in titles) == (8 <= window < 15)
        assert all(row["latencyMs"] is not None for row in answer["operators"]), window
        assert sum(step["ms"] for step in answer["blame"]) == pytest.approx(answer["latencyMs"], abs=0.01)


def test_changes_are_reported_with_their_windows(run):
    rows = run.watch.changes()
    states = [(row["state"], row["window"]) for row in rows]
    applied = [("APPLIED", window) for window in (5, 8, 12, 15)]
    assert states == [*applied, ("REFUSED", None), ("APPLIED", 19)]
    assert "there is no operator `nobody`" in rows[4]["reason"]
    assert all(row["heldSeconds"] > 0 for row in rows if row["state"] == "APPLIED")
    asked = [event for event in run.events if isinstance(event, ApplicationChanged)]
    assert [event.number for event in asked if event.state == "QUEUED"] == [row["id"] for row in rows]


def test_a_log_has_the_same_figures(run):
    again, straight = Measurement(), Measurement()
    for event in run.events:
        straight.apply(event)
        again.apply(from_dict(to_dict(event)))
    assert again.overview(again.at) == straight.overview(straight.at)
    assert again.summary() == straight.summary()


@pytest.mark.parametrize("seed", range(deep(2)))
def test_random_changes_with_faults_lose_nothing_in_the_figures(seed):
    random, windows = Random(seed), 60
    audit = [AddOperator("audit", {"class": "support.service.live.Audit"}), AddSink("numbers", "audit.input")]
    changes, added, seen = {}, False, 0
    for window in range(windows):
        if window and random.random() < 0.4:
            edits = [Repartition("sums", random.randint(1, 4))]
            if random.random() < 0.5:
                edits = [*edits, RemoveOperator("audit")] if added else [*edits, *audit]
                added = not added
            changes[window] = edits
        seen += added
    faults = Faults(seed, rate=0.05, kinds=("exception", "kill", "repeat", "restart"), quiet=True)
    run = run_local(application(), windows=windows, changes=changes, faults=faults, interleave=seed)
    assert [one.state for one in run.changes if one.state != "APPLIED"] == []
    totals, summary = run.watch.operator_totals(), run.watch.summary()
    assert summary["windows"] == windows
    assert totals["numbers"]["tuplesOut"] == totals["sums"]["tuplesIn"] == windows * TUPLES
    assert totals["sink"]["tuplesIn"] == windows * TUPLES
    assert totals["audit"]["tuplesIn"] == seen * TUPLES
    assert totals["audit"]["windows"] == seen
    (metric,) = run.watch.own_metrics()["metrics"]
    assert metric["total"] == windows * TUPLES
    answers = [run.watch.window(window) for window in range(windows)]
    for answer in answers:
        assert sum(step["ms"] for step in answer["blame"]) == pytest.approx(answer["latencyMs"], abs=0.01)
    assert run.watch.critical_path()["logicalShare"]["numbers"] == 1.0
    ids = {}
    for event in run.events:
        if isinstance(event, ApplicationPlanned):
            for node in event.topology.operators:
                assert ids.setdefault(node.id, node.series) == node.series
    assert len(run.watch.operators()) == len(run.plan.physical.operators)
    plain = run_local(application(), windows=windows)
    assert sorted(run.collected("sink")) == sorted(plain.collected("sink"))


def test_the_last_hours_of_an_operator_and_of_the_application_are_kept(run):
    first = next(event for event in run.events if isinstance(event, ApplicationPlanned))
    watch = Watch(lambda: run.events[-1].at)
    watch.observe(first)
    nothing = {"step": 1, "keptSeconds": 900, "steps": []}
    assert watch.operator_history("sums") == {"operator": "sums", **nothing}
    assert watch.application_history() == nothing
    for event in run.events[run.events.index(first) + 1 :]:
        watch.observe(event)
    steps = watch.operator_history("sums")["steps"]
    assert sum(row["windows"] for row in steps) == WINDOWS
    taken = sum(row["tuplesIn"] * row["seconds"] for row in steps)
    assert taken == pytest.approx(WINDOWS * TUPLES, rel=1e-3)
    assert [row["at"] for row in steps] == sorted(row["at"] for row in steps)
    for row in steps:
        assert 0 <= row["latencyMs"] <= row["greatestMs"]
        assert 0 <= row["onPath"] <= 1
    with pytest.raises(KeyError, match="is not an operator of this application; did you mean `sums`"):
        watch.operator_history("sum")
    whole = watch.application_history(-3600.0, 60)
    assert sum(row["windows"] for row in whole["steps"]) == WINDOWS
    with serving(watch, run.plan) as client:
        assert client.get("/logicalPlan/operators/sums/history")["steps"] == steps
        assert client.get("/history?from=-3600&step=60") == whole
        with pytest.raises(Exception, match="step"):
            client.get("/history?step=0")
