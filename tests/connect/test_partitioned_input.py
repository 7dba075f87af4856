"""A source with partitions is read once, in order, whatever happens meanwhile: against plain loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from tests.connect.memory_source import LOGS, Entry, Log, MemoryInput, MemorySource, steps

from ridgeline import Application, RidgelineError, ValidationError
from ridgeline.connect.outage import Outage
from ridgeline.connect.reader import Lost
from ridgeline.operators import aggregate as agg
from ridgeline.operators import tumbling
from ridgeline.plan.edits import Repartition
from ridgeline.testing import CollectorSink, Faults, SteppingClock, run_local
from support.depth import deep, deeper
from support.testing.shares import share


def application(log: Log, partitions: int = 1, **properties: Any) -> Application:
    attributes = {"on_error": properties.pop("on_error")} if "on_error" in properties else {}
    LOGS["log"] = log
    app = Application("memory", window="100ms")
    source = MemoryInput("log", **{"discover_every": 0.0, **properties})
    app.read("source", source, partitions=partitions, **attributes).write("sink", CollectorSink(Entry))
    return app


def by_partition(rows: Iterable[Entry]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        found[row.partition].append(row.place)
    return dict(found)


def expected(log: Log) -> dict[str, list[int]]:
    return {name: list(range(end)) for name, end in log.records.items() if end}


@pytest.mark.parametrize("continues", [False, True])
def test_an_end_that_is_not_known_for_long_is_said(
    continues: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemorySource, "silent_seconds", 0.2)
    log = Log([{"a": 10, "b": 20}], ends=False)
    log.step()
    if continues:
        run_local(application(log), checkpoint=tmp_path, windows=2)
    log.unknown = [{"b"}] * 100_000
    run = run_local(application(log, until="end"), checkpoint=tmp_path, windows=8)
    assert run.collected("sink") == []
    said = [event.text for event in run.events if hasattr(event, "text")]
    said = [text for text in said if "answer" not in text]  # on a busy machine 0.2 s are nothing
    assert said == [
        '`source`: nothing is read until the end of source partition `b` is known, since `until` is "end"'
    ]


@pytest.mark.parametrize("seed", range(deep(3)))
def test_kills_lose_nothing(seed: int) -> None:
    log = Log(steps(seed))
    partitions = (1, 2, 3, 5)[seed % 4]
    faults = Faults(seed=seed, rate=0.2, kinds=["exception", "kill", "repeat", "restart"])
    app = application(log, partitions, window_records=15, lateness="5s", timestamp="at")
    run = run_local(app, faults=faults, interleave=seed if seed % 2 else None)
    assert faults.struck
    assert by_partition(run.collected("sink")) == expected(log)


@pytest.mark.parametrize("seed", range(deep(3)))
def test_partitions_that_change_while_it_runs(seed: int) -> None:
    log = Log(steps(seed, count=25))
    random = Random(seed)
    changes = {window: [Repartition("source", random.choice([1, 3, 5]))] for window in (2, 4, 7)}
    app = application(log, 2, window_records=20, lateness="1s", timestamp="at")
    run = run_local(app, changes=changes, faults=Faults(seed=seed, rate=0.05, kinds=["kill"]))
    assert any(change.state == "APPLIED" for change in run.changes)
    assert by_partition(run.collected("sink")) == expected(log)


def test_a_beginning_that_is_none() -> None:
    with pytest.raises(ValidationError, match=r"`source.begin`.*ISO 8601"):
        run_local(application(Log([{"a": 1}]), begin="yesterday"))
    log = Log([{"p0": 1}] * 3)
    log.step()
    with pytest.raises(RidgelineError, match=r"`source`: `begin` gives a position of `pO`.*known are `p0`"):
        run_local(application(log, begin={"pO": 1}))


def test_no_lateness_without_times() -> None:
    with pytest.raises(ValidationError, match="needs `timestamp`"):
        run_local(application(Log([{"a": 1}]), lateness="1s"))


def counts_of(log: Log, partitions: int, **properties: Any) -> Application:
    """Records by source partition in windows of ten seconds."""
    LOGS["log"] = log
    app = Application("memory", window="100ms")
    source = MemoryInput("log", discover_every=0.0, timestamp="at", lateness="1s", **properties)
    grouped = app.read("source", source, partitions=partitions).group_by("partition").window(tumbling("10s"))
    grouped.aggregate("counted", count=agg.count()).write("sink", CollectorSink(Any))
    return app


@pytest.mark.parametrize(("idle_after", "partitions"), share(2, [None, "1s"], [1, 2, 3]))
def test_a_source_partition_without_records_holds_the_watermark_until_it_is_idle(
    idle_after: str | None, partitions: int
) -> None:
    log = Log([{"quiet": 1, "busy": 120}], ends=False)
    log.step()  # all is there when the run begins
    app = counts_of(log, partitions, idle_after=idle_after, window_records=50)
    rows = run_local(app, windows=20).collected("sink")
    assert sum(row["count"] for row in rows) == (0 if idle_after is None else 110 + 1)


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3])
def test_the_watermark_waits_for_the_source_partition_that_is_behind(partitions: int) -> None:
    """`slow` is far behind `quick` in each window, so no record of it is late."""
    log = Log([{"quick": 100, "slow": 1}, *({"quick": 100, "slow": 3} for _ in range(20))])
    app = counts_of(log, partitions)
    rows = run_local(app, faults=Faults(seed=1, rate=0.1, kinds=["kill"])).collected("sink")
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[row["partition"]] += row["count"]
    assert counts == log.records


def test_a_fault_of_the_source_ends_the_run() -> None:
    log = Log(steps(5))
    log.failures = [ZeroDivisionError("broken")]
    with pytest.raises(RidgelineError, match=r"(?s)source.*broken"):
        run_local(application(log))


def test_source_partitions_that_go_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log([{"a": 5, "b": 5}, {"a": 1}, {"b": 0}, *({"b": 1} for _ in range(12))])
    log.waits = True  # until rows of `a` are committed

    class Removing(dict[str, int]):
        def items(self) -> Any:
            log.removed.add("a")
            return super().items()

    log.steps[2] = Removing({"b": 1})
    run = run_local(application(log))
    found = by_partition(run.collected("sink"))
    assert found["b"] == expected(log)["b"]
    assert found["a"] == list(range(len(found["a"])))
    assert "source partition `a` is gone" in capsys.readouterr().out


def test_losses_are_said_at_once_and_then_once_a_minute_and_at_the_end():
    clock, texts = SteppingClock(), []
    enumerator: Any = MemoryInput("log").enumerator()
    enumerator._context = SimpleNamespace(operator="orders", clock=clock, warn=texts.append)
    enumerator._losing = Outage(clock)

    def lost(records: int, text: str, seconds: float) -> list[str]:
        texts.clear()
        enumerator.received(7, [Lost("orders-0", records, text)] if records else [])
        clock.advance(seconds)
        enumerator._mention_losses()
        return texts

    assert lost(5, "records 10 to 14 are gone", 0.0)[0].startswith("`orders`: 5 records so far were gone")
    assert lost(1, "record 20 is gone", 1.0) == []
    assert lost(0, "", 59.5)[0].startswith("`orders`: 6 records so far were gone")
    assert lost(0, "", 70.0) == [], "nothing came since"
    assert len(lost(1, "record 21 is gone", 0.0)) == 1
    assert lost(1, "record 22 is gone", 1.0) == []
    enumerator._mention_losses(at_end=True)
    assert texts[0].endswith("record 22 is gone")
