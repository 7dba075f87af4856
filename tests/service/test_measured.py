"""A run with all that watches it; what breaks beside it does not break it."""

import io
import json
import urllib.request

import pytest
from rich.console import Console

from ridgeline import RidgelineError
from ridgeline.engine.driver.run.launch import Options
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.measure.events import ApplicationPlanned, WindowCommitted, WindowReported
from ridgeline.observe.watch import Watch
from ridgeline.plan.planner import plan_application
from ridgeline.service import measured, registry
from ridgeline.service.history.tail import read_event_log
from ridgeline.service.measured import ServiceOptions, run_measured
from ridgeline.stram.master import Master
from support.engine.applications import sum_application
from support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.spark


@pytest.fixture
def run(spark_context, tmp_path):
    """Run the application of sums; returns the outcome, its events, and what was printed."""

    def run(service=None, *, windows=3, attributes=None, started=None, observe=None):
        printed = io.StringIO()
        events = []

        def hear(event):
            events.append(event)
            if observe is not None:
                observe(event)

        plan = plan_application(sum_application(), {}, attributes or {})
        options = Options(checkpoint=str(tmp_path / "checkpoint"), windows=windows)
        console = Console(file=printed, width=200)
        outcome = run_measured(
            plan, options, service, observe=hear, console=console, context=spark_context, started=started
        )
        return outcome, events, printed.getvalue()

    return run


def test_a_run_is_reported_from_its_plan_to_its_end(run, tmp_path):
    seen = []

    def started(application, watch, web):
        assert isinstance(application, ApplicationRun)
        seen.append((watch, web.url, registry.running()))
        with urllib.request.urlopen(f"{web.url}/ws/v2/stram/info", timeout=PATIENCE_SECONDS) as answer:
            assert json.load(answer)["state"] == "RUNNING"

    outcome, events, printed = run(ServiceOptions(event_log=str(tmp_path / "log.jsonl")), started=started)

    assert isinstance(events[0], ApplicationPlanned)
    assert events[0].info["master"] == "local[4,4]"
    assert (events[-1].outcome, outcome.windows_committed) == ("stopped", 3)
    [(watch, url, [entry])] = seen
    assert (entry.id, entry.url, entry.checkpoint) == (events[0].application_id, url, outcome.checkpoint)
    assert watch.info()["state"] == "STOPPED"
    assert list(read_event_log(str(tmp_path / "log.jsonl"))) == events
    assert printed == ""
    _, again, _ = run(ServiceOptions(port=None), windows=None)
    assert again[-1].outcome == "finished"
    assert again[0].application_id != events[0].application_id  # another run of the same checkpoint


def test_figures_that_fail_are_reported_once_and_the_run_goes_on(run, monkeypatch):
    observe = Watch.observe

    def fails(self, event):
        if isinstance(event, WindowReported):
            raise ZeroDivisionError
        observe(self, event)

    monkeypatch.setattr(Watch, "observe", fails)
    outcome, events, printed = run(ServiceOptions(port=None))
    assert outcome.windows_committed == sum(isinstance(event, WindowCommitted) for event in events) == 3
    assert printed.startswith("figures are not reliable any more: ZeroDivisionError")
    assert printed.count("\n") == 1


def test_a_fault_of_the_driver_leaves_its_last_events_beside_the_checkpoint(run, tmp_path, monkeypatch):
    def fails(self, window_id, names):
        raise ZeroDivisionError("no such thing; password=hunter2")

    monkeypatch.setattr(Master, "_has_committed", fails)
    with pytest.raises(ZeroDivisionError) as raised:
        run(ServiceOptions(port=None))
    path = tmp_path / "checkpoint" / "fault.json"
    assert raised.value.__notes__ == [f"the last events and instructions of the driver are in `{path}`"]
    dump = json.loads(path.read_text())
    assert dump["fault"] == "ZeroDivisionError: no such thing; password=***"
    window = dump["windows"][0]
    assert (dump["committed"], window["window"], window["phase"]) == (-1, 0, "committing")
    assert (dump["events"][-1]["event"], dump["events"][-1]["instructions"]) == ("ManifestWritten", None)
    monkeypatch.undo()
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path / "home"))
    outcome, _, _ = run(ServiceOptions(port=None), windows=None)
    assert outcome.ended


def test_a_fault_of_which_nothing_can_be_written_is_the_drivers_error_all_the_same(run, monkeypatch, caplog):
    def fails(*_args):
        raise ZeroDivisionError("no such thing")

    monkeypatch.setattr(Master, "_has_committed", fails)
    monkeypatch.setattr(ApplicationRun, "debug_dump", lambda *_args: {}["nothing"])
    with pytest.raises(ZeroDivisionError, match="no such thing") as raised:
        run(ServiceOptions(port=None))
    assert not hasattr(raised.value, "__notes__")
    assert "the last events and instructions could not be written" in caplog.text


def test_a_registry_that_cannot_be_written_is_reported_and_the_run_goes_on(run, monkeypatch):
    def full(_entry):
        raise RidgelineError("the application cannot be registered")

    monkeypatch.setattr(measured, "register", full)
    outcome, _, printed = run()
    assert (outcome.windows_committed, printed) == (3, "the application cannot be registered\n")


def test_an_observer_that_raises_does_not_end_the_run(run):
    def fails(_event):
        raise ZeroDivisionError

    outcome, events, _ = run(ServiceOptions(port=None), observe=fails)
    assert outcome.windows_committed == 3
    assert len(events) == 1
