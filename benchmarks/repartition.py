"""How long windows are held up while a state of a million keys goes to other partitions.

Two partitions hold the keys in segments, and 10,000 of them were touched since. What is timed: the move to 3
or 4 partitions, as it is done between two windows, and what the partition with most keys takes to begin with
it in a new process. Then the keys of all partitions are counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks.frame import Benchmark, Figures, Goal, Round

MOVE, BEGIN, CPU = "move seconds", "begin seconds", "move cpu seconds"
KEYS, TOUCHED = 1_000_000, 10_000
TIMES = 5
CASES: Mapping[str, tuple[bool, int]] = {
    "numbers, 2 to 3": (False, 3),
    "numbers, 2 to 4": (False, 4),
    "texts, 2 to 3": (True, 3),
    "texts, 2 to 4": (True, 4),
}


def _partitions(number: int) -> Any:
    from benchmarks.apps import held_partitions

    return held_partitions.partitions(number)


def hold(of_round: Round, folder: str, *, texts: bool) -> dict[str, tuple[str, ...]]:
    """Write the states of two partitions; returns their versions by state key."""
    from ridgeline import stable_hash
    from ridgeline.engine.files.storage import LocalStorage
    from ridgeline.engine.state import state_files
    from ridgeline.engine.state.compaction import CompactionTask, StateCompactor, cells_of
    from ridgeline.engine.state.segment_files import SegmentFiles

    storage = LocalStorage(folder)
    count = KEYS // 100 if of_round.quick else KEYS
    keys: list[Any] = [f"account-{number}" for number in range(count)] if texts else list(range(count))
    operators = _partitions(2)
    compactor = StateCompactor(SegmentFiles(storage, "benchmark"), operators)
    versions = {}
    for operator in operators:
        own = [key for key in keys if stable_hash(key) % 2 == operator.partition]
        version: tuple[str, ...] = ()
        for window, some in enumerate((own, own[: TOUCHED // 2])):
            cells = cells_of(operator)
            cells["totals"].begin(window)
            cells["totals"].put_many(some, [window] * len(some))  # type: ignore[attr-defined]  # a keyed state
            name = state_files.file_name(window, operator.id, 1, 0, f"t{operator.partition}")
            changes = {"totals": cells["totals"].changes() or ()}
            state_files.write(storage, name, state_files.encode(name, {operator.state_key: changes})[0])
            version = (*version, name)
            if not window:
                stem = state_files.compacted_stem(version, operator.id, 1, operator.id)
                version = compactor.compact(CompactionTask(operator.id, version, stem)).names
        versions[operator.state_key] = version
    return versions


def move(of_round: Round, case: str) -> Figures:
    """Move the state some times, each from the files."""
    from ridgeline.engine.files.storage import LocalStorage
    from ridgeline.engine.state import state_files
    from ridgeline.engine.state.compaction import cells_of
    from ridgeline.engine.state.moving import MoveSource
    from ridgeline.engine.state.moving import move as moved
    from ridgeline.engine.state.segment_files import SegmentFiles
    from ridgeline.engine.state.versions import load

    texts, number = CASES[case]
    folder = str(of_round.folder)
    sources = [MoveSource(key, version) for key, version in hold(of_round, folder, texts=texts).items()]
    targets = _partitions(number)
    moves, cpus, begins = [], [], []
    for attempt in range(TIMES):
        files = SegmentFiles(LocalStorage(folder), "benchmark")
        wall, cpu = time.perf_counter(), time.process_time()
        versions = moved(
            files,
            sources,
            targets,
            lambda operator, attempt=attempt: state_files.moved_stem(1, operator.id, 1, attempt),  # type: ignore[misc]
        )
        moves.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        total, longest = 0, 0.0
        for target in targets:
            fresh, cells = SegmentFiles(LocalStorage(folder), "benchmark"), cells_of(target)
            wall = time.perf_counter()
            load(fresh, target.state_key, cells, versions[target.id])
            total += len(cells["totals"])  # type: ignore[arg-type]  # a keyed state
            longest = max(longest, time.perf_counter() - wall)
        begins.append(longest)
        if total != (KEYS // 100 if of_round.quick else KEYS):
            raise ValueError(f"all keys are to be there, each once; got {total:,}")
    return {MOVE: moves, CPU: cpus, BEGIN: begins}


BENCHMARKS = (
    Benchmark(
        name="repartition",
        title="a state of 1 million keys goes from 2 to other numbers of partitions",
        contestants={name: partial(move, case=name) for name in CASES},
        goals=[
            Goal(figure=MOVE, of=name, at_most=1.0 if number == 3 else 0.3)
            for name, (_, number) in CASES.items()
        ],
        budget_seconds=40,
    ),
)
