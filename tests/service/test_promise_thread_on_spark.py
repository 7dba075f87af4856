"""Promises of an application on Spark, while its plan changes and in a pause."""

import json
import sys
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ridgeline import Application
from ridgeline.plan.edits import AddOperator, AddSink, RemoveOperator
from ridgeline.service.event_log import replay
from ridgeline.sla import error_share, latency, throughput, window_latency
from ridgeline.stram.changes import EditPlan, Pause, Resume
from ridgeline.testing import CollectorSink
from support.service.live import Audit, Number, Numbers, Sums
from support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.spark
KEPT = {"latency_p99:sums": True, "window_latency_p50": False, "error_share:sums": True}


def test_promises_are_judged_while_the_plan_changes(spark_context, tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path / "home"))
    told = tmp_path / "told"
    app = Application("live", window="50ms")
    numbers, sums = app.add_operator("numbers", Numbers()), app.add_operator("sums", Sums())
    audit, sink = app.add_operator("audit", Audit()), app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, sums.input, audit.input)
    app.add_stream("sums", sums.output, sink.input)
    hook = [
        sys.executable,
        "-c",
        "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')",
        str(told),
    ]
    app.promise(
        latency("sums", p99="1h"),
        window_latency(p50="1ms", on_broken=hook),
        error_share("sums", at_most=0),
        latency("audit", p99="1h"),
        throughput("sums", at_least=1, over="500ms"),
    )
    log = str(tmp_path / "log.jsonl")
    with app.start(
        context=spark_context, checkpoint=str(tmp_path / "checkpoint"), event_log=log, quiet=True
    ) as handle:

        def verdicts():
            return {row["promise"]: row["kept"] for row in handle.watch.promises()}

        def ask(what):
            asked = handle._running().changes.ask(what, "test")
            assert asked.done.wait(PATIENCE_SECONDS)
            assert (asked.state, asked.reason) == ("APPLIED", "")

        everything = {**KEPT, "latency_p99:audit": True, "throughput:sums": True}
        wait_until(lambda: verdicts() == everything, "verdicts")
        ask(EditPlan((RemoveOperator("audit"),)))
        wait_until(lambda: verdicts()["latency_p99:audit"] is None, "the operator to be gone")
        ask(
            EditPlan(
                (
                    AddOperator("audit", {"class": "support.service.live.Audit"}),
                    AddSink("numbers", "audit.input"),
                )
            )
        )
        wait_until(lambda: verdicts()["latency_p99:audit"], "the operator to be there again")
        ask(Pause())
        before = handle.watch.promises()
        ask(Resume())
        assert [row["timesBroken"] for row in handle.watch.promises()] == [
            row["timesBroken"] for row in before
        ]
        base = f"{handle.url}/ws/v2/stram/promises"
        with urllib.request.urlopen(base, timeout=PATIENCE_SECONDS) as answer:
            rows = json.load(answer)["promises"]
        assert [row["promise"] for row in rows] == list(everything)
        with urllib.request.urlopen(f"{handle.url}/metrics", timeout=PATIENCE_SECONDS) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        samples = {
            sample.labels["promise"]: sample.value
            for family in families
            for sample in family.samples
            if sample.name == "ridgeline_promise_kept"
        }
        assert samples["window_latency_p50"] == 0
        assert samples["latency_p99:sums"] == 1
        wait_until(told.exists, "the hook")
        watch = handle.watch
        assert handle.promises().column("promise").to_pylist() == list(everything)
    again = replay(log).counts.promises.rows(0.0)
    assert [(row["promise"], row["kept"], row["timesBroken"]) for row in again] == [
        (row["promise"], row["kept"], row["timesBroken"]) for row in watch.promises()
    ]
