"""Listeners and policies decide on an application that runs on Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures
from ridgeline.plan import edits
from ridgeline.policies import Decision, Expectation, Policy, Repartition, SetProperty, StatsListener
from ridgeline.service.history.tail import replay
from support.service.live import application

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Once(StatsListener):
    """Asks for two partitions, and then for a property that there is not."""

    def observe(self, figures: OperatorFigures) -> Repartition | SetProperty | None:
        if figures.windows < 5:
            return None
        if figures.partitions == 1:
            return Repartition(2, note=f"{figures.tuples_in} tuples")
        return None if figures.partitions > 2 else SetProperty("colour", "red", note="why not")


class Fails(StatsListener):
    def observe(self, figures: OperatorFigures) -> None:
        raise ValueError("no idea")


class Promises(Policy):
    """Promises what cannot come."""

    def decide(self, figures: ApplicationFigures) -> Decision | None:
        if figures.windows < 5 or figures.operators["sums"].partitions != 2:
            return None
        expected = Expectation("tuples_per_second", 1.0, 1e12, "sums", seconds=0.2)
        return Decision(
            (edits.Repartition("sums", 3),), "a guess", (expected,), (edits.Repartition("sums", 1),)
        )


def test_what_is_decided_is_done_told_and_kept(
    spark_context, tmp_path, wait_until: Callable[..., None], caplog
):
    app = application("20ms")
    at = next(at for at, added in enumerate(app.operators) if added.name == "sums")
    app.operators[at] = replace(app.operators[at], listeners=(Fails(), Once()))
    app.add_policy(Promises())
    log = str(tmp_path / "log.jsonl")
    expected = {"repartition `sums` to 3": "MISSED", "set `sums.colour` to red": "REFUSED"}
    expected["repartition `sums` to 1"] = "APPLIED"
    with app.start(
        context=spark_context, checkpoint=str(tmp_path / "checkpoint"), event_log=log, quiet=True
    ) as handle:

        def settled() -> bool:
            states = {row["what"]: row["state"] for row in reversed(handle.watch.decisions())}
            return expected.items() <= states.items()

        wait_until(lambda: settled() or handle.state != "RUNNING", "decisions")
        rows = [row for row in handle.decisions().to_pylist() if row["state"] != "FAILED"]
        assert [row["what"] for row in handle.changes().to_pylist()][:3] == [row["what"] for row in rows][:3]
    found = {row["what"]: row for row in reversed(rows)}  # it begins anew once it is taken back
    assert found["repartition `sums` to 2"]["state"] == "APPLIED"
    assert "has no property `colour`" in found["set `sums.colour` to red"]["found"]
    assert found["repartition `sums` to 1"]["undoes"] == found["repartition `sums` to 3"]["id"]
    assert len([one for one in caplog.records if "listener Fails of sums: it has failed" in one.message]) == 1
    replayed = replay(log)
    replayed_rows = [row for row in replayed.decisions() if row["state"] != "FAILED"]
    assert [row["id"] for row in replayed_rows][: len(rows)] == [row["id"] for row in rows]
