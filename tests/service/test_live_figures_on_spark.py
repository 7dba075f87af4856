"""Figures of an application on Spark, in slots, while its plan changes."""

import urllib.request
from dataclasses import dataclass, field

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ridgeline.measure.events import ApplicationPlanned
from ridgeline.plan.edits import AddOperator, AddSink, RemoveOperator, Repartition
from ridgeline.service.event_log import read_event_log, replay
from ridgeline.service.handle import Handle
from ridgeline.stram.changes import EditPlan, Pause, Resume
from support.service.live import TUPLES, application
from support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.spark


@dataclass
class Changing:
    """A run that is changed; after each change some windows are waited for, and the metrics are read."""

    handle: Handle
    log: str
    counters: dict = field(default_factory=dict)
    windows: list[int] = field(default_factory=list)
    titles: list[list[str]] = field(default_factory=list)
    states: list[str] = field(default_factory=list)

    @property
    def watch(self):
        return self.handle.watch

    def ask(self, what):
        asked = self.handle._running().changes.ask(what, "test")
        assert asked.done.wait(PATIENCE_SECONDS)
        assert (asked.state, asked.reason) == ("APPLIED", "")
        return asked

    def change(self, *edits):
        window = self.ask(EditPlan(edits)).window
        wait_until(lambda: self.watch.info()["stats"]["recoveryWindowId"] > window + 3, "windows after it")
        self.windows.append(window)
        self.titles.append([row["operator"] for row in self.watch.operators()])
        assert all(row["host"] and row["pid"] for row in self.watch.operators())
        self.scrape()

    def scrape(self):
        """Read the metrics: each series is there once, and no counter falls."""
        with urllib.request.urlopen(f"{self.handle.url}/metrics", timeout=PATIENCE_SECONDS) as answer:
            text = answer.read().decode()
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in found
                found[key] = sample.value
                if family.type in {"counter", "histogram"}:
                    assert sample.value >= self.counters.get(key, 0) - 1e-9, sample
        self.counters |= found


@pytest.fixture(scope="module")
def changed(spark_context, tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIDGELINE_HOME", str(folder / "home"))
        log = str(folder / "log.jsonl")
        with application("50ms").start(
            context=spark_context, checkpoint=str(folder / "checkpoint"), event_log=log, quiet=True
        ) as handle:
            run = Changing(handle, log)
            wait_until(handle.watch.windows, "a window")
            run.scrape()
            run.change(Repartition("sums", 3))
            audit = AddOperator("audit", {"class": "support.service.live.Audit"})
            run.change(audit, AddSink("numbers", "audit.input"))
            run.change(Repartition("sums", 2), RemoveOperator("audit"))
            for what in (Pause(), Resume()):
                run.ask(what)
                run.states.append(run.watch.info()["state"])
        yield run


def test_operators_are_those_of_the_plan(changed):
    first = ["numbers", "sums[0]", "sums[1]", "sums[2]", "sums.output#unifier", "sink"]
    assert changed.titles[0] == first
    assert sorted(changed.titles[1]) == sorted([*first, "audit"])
    assert changed.titles[2] == ["numbers", "sums[0]", "sums[1]", "sums.output#unifier", "sink"]
    assert changed.states == ["PAUSED", "RUNNING"]


def test_nothing_is_lost_in_the_totals(changed):
    watch = changed.watch
    totals, windows = watch.operator_totals(), watch.summary()["windows"]
    assert totals["numbers"]["tuplesOut"] == totals["sums"]["tuplesIn"] == TUPLES * windows
    assert totals["audit"]["tuplesIn"] == TUPLES * (changed.windows[2] - changed.windows[1])
    (added,) = watch.own_metrics()["metrics"]
    assert added["total"] == TUPLES * windows


def test_windows_are_told_with_their_plans(changed):
    watch = changed.watch
    versions = {row["windowId"]: row["planVersion"] for row in watch.windows()}
    assert [versions[window] - versions[window - 1] for window in changed.windows] == [1, 1, 1]
    for window in (changed.windows[0] - 1, *changed.windows):
        answer = watch.window(window)
        assert sum(step["ms"] for step in answer["blame"]) == pytest.approx(answer["latencyMs"], abs=0.01)
        assert all(row["latencyMs"] is not None for row in answer["operators"])
    changes = [row for row in watch.changes() if row["edits"]]
    assert [row["window"] for row in changes] == changed.windows
    assert all(0 < row["heldSeconds"] < PATIENCE_SECONDS for row in changes)


def test_the_log_has_the_same_figures(changed):
    again = replay(changed.log)
    assert again.windows() == changed.watch.windows()
    assert again.summary() == changed.watch.summary()
    assert again.overview(again.at) == {**changed.watch.overview(), "at": again.at}
    seen = {}
    for event in read_event_log(changed.log):
        if isinstance(event, ApplicationPlanned):
            for node in event.topology.operators:
                assert seen.setdefault(node.id, node.series) == node.series
