"""Recordings in simulated worlds: what they hold is what was published, whatever was killed meanwhile."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from ridgeline.engine.driver.checkpoint.journal import Journal
from ridgeline.engine.driver.checkpoint.run_description import describe_run
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.stram.changes import StartRecording, StopRecording
from support.simulation.disk import SimulatedDisk
from support.simulation.process import Process
from support.simulation.world import Case, World

_KINDS = (
    *("kill slot", "job", "cut", "late", "no answer", "stop slot", "disown", "raise"),
    *("kill driver", "stop driver", "second driver", "power", "lost answer"),
)


class _Asking:
    """Asks for recordings in some windows, and ends them in others."""

    def __init__(self, luck: random.Random, begin: Any) -> None:
        self.luck, self.begin = luck, begin
        self.asked: list[Any] = []

    def patched(self, run: ApplicationRun, window_id: int, *rest: Any, **more: Any) -> None:
        """In the place of `ApplicationRun.begin`."""
        if self.luck.random() < 0.3:
            windows = self.luck.choice((1, 2, 100))
            self.asked.append(run.changes.ask(StartRecording("output", "numbers", windows), "test"))
        known = [one.result for one in self.asked if one.result]
        if known and self.luck.random() < 0.2:
            run.changes.ask(StopRecording(self.luck.choice(known)), "test")
        self.begin(run, window_id, *rest, **more)


def _recorded(disk: Any) -> dict[str, dict[str, Any]]:
    """All recordings: the windows from `first` up to `end`, and the values of each."""
    found: dict[str, dict[str, Any]] = {}
    last = Journal(disk, describe_run(disk)[1], appends=False).last
    known = dict(last.recordings) if last else {}
    for name in (one for one in disk.names("recordings") if one.endswith(".ended.json")):
        row = json.loads(disk.read(f"recordings/{name}"))
        known[row["id"]] = {"first": row["firstWindow"], "end": row["endWindow"]}
    for name, one in known.items():
        tuples: dict[int, list[int]] = {}
        for file in disk.names(f"recordings/{name}/numbers"):
            for row in pq.read_table(io.BytesIO(disk.read(f"recordings/{name}/numbers/{file}"))).to_pylist():
                tuples.setdefault(row["_window"], []).append(row["value"])
        found[name] = {
            "first": one["first"],
            "end": one["end"],
            "tuples": {window: sorted(values) for window, values in tuples.items()},
        }
    return found


class _Quiet:
    def moment(self, process: object, what: str) -> None:
        """Nothing happens."""


@pytest.mark.parametrize("partitions", [2, 3])
def test_recordings_hold_what_was_published(partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found, begin = 0, ApplicationRun.begin
    for seed in range(12):
        number = 30 * seed + 3 * partitions - 2  # of those whose output hands numbers over
        case = replace(Case.of(number, _KINDS), partitions=partitions, real=True)
        asking = _Asking(random.Random(seed), begin)

        def asks(run: ApplicationRun, *rest: Any, asking: _Asking = asking, **more: Any) -> None:
            asking.patched(run, *rest, **more)

        monkeypatch.setattr(ApplicationRun, "begin", asks)
        world = World(case)
        world.run()
        disk: Any = SimulatedDisk(world.disk, Process(_Quiet(), "reader"))
        commits = sorted(world.ledger.published)
        for recording, row in _recorded(disk).items():
            covered = range(row["first"], row["end"])
            assert set(row["tuples"]) <= set(covered), (seed, recording)
            for before, last in zip([-1, *commits], commits, strict=False):  # a commit may have several
                windows = range(before + 1, last + 1)
                got = [value for window in windows for value in row["tuples"].get(window, ())]
                published = world.ledger.published[last]
                assert len(set(got)) == len(got)
                assert set(got) <= set(published), (seed, recording, last)
                if all(window in covered for window in windows):
                    assert sorted(got) == sorted(published), (seed, recording, last)
                    found += len(got)
        assert not disk.names("recordings/staged") or case.faults
    assert found
