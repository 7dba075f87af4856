"""The cost of a run: by its event log, by its metrics, and the same by hand."""

import json

import pytest

from ridgeline.cli.costs.usage import Usage
from ridgeline.measure.events import ApplicationEnded, OperatorWindow
from ridgeline.measure.slot_events import SlotsSized
from ridgeline.service.event_log import EventLogWriter
from ridgeline.testing import run_local
from support.cli.windows import make_plan, planned, watch_of, window
from support.testing.diamond import diamond


def test_cores_are_divided_by_processor_time(ridgeline_command, tmp_path):
    events = run_local(diamond(), windows=12).events
    began = events[0].at
    events = [events[0], SlotsSized(began, 3, 3), *events[1:-1], ApplicationEnded(began + 100.0, "finished")]
    log = EventLogWriter(str(tmp_path / "run.jsonl"))
    for event in events:
        log.write(event)
    log.close()

    result = ridgeline_command("cost", str(tmp_path / "run.jsonl"), "--price", "0.36", "--json")
    found = json.loads(result.stdout)
    assert found["core_seconds"] == pytest.approx(3 * 100 + 2 * 100)
    assert found["money"] == pytest.approx(500 / 3600 * 0.36)
    assert sum(row["core_seconds"] for row in found["operators"]) == pytest.approx(500)
    assert sum(row["money"] for row in found["operators"]) == pytest.approx(found["money"])
    done = [event for event in events if isinstance(event, OperatorWindow)]
    assert found["cpu_seconds"] == pytest.approx(
        sum(one.compute_seconds if one.cpu_seconds is None else one.cpu_seconds for one in done)
    )
    text = ridgeline_command("cost", str(tmp_path / "run.jsonl"), "--price", "0.36").stdout
    assert "500.0 core seconds" in text
    assert "EUR/million" in text
    assert ridgeline_command("cost", str(tmp_path / "none.jsonl")).exit_code == 2


def test_a_running_application_has_the_figures_of_its_events(ridgeline_command, serve):
    plan = make_plan()
    events = [event for number in range(3) for event in window(plan, number, at=0.5 * number)]
    entry = serve(watch_of(plan, events), plan)
    found = json.loads(ridgeline_command("cost", entry.url, "--json").stdout)
    rows = {row["operator"]: row["records"] for row in found["operators"]}
    usage = Usage()
    for event in [planned(plan), *events]:
        usage.apply(event)
    assert rows == usage.records
    assert found["money"] is None
    assert "core s/million" in ridgeline_command("cost", entry.url).stdout
