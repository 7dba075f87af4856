"""What a plan begins with of what the windows before have left: states move to where it wants them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from ridgeline.api.errors import CheckpointError, StateError, ValidationError
from ridgeline.engine.driver.checkpoint import Checkpoint
from ridgeline.engine.driver.manifest import Manifest
from ridgeline.engine.driver.planning import Planner
from ridgeline.engine.state import state_files
from ridgeline.engine.state.moving import MoveSource, move
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.storage import explain
from ridgeline.plan.divisions import redivided
from ridgeline.plan.draft import listed
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import StateVersion
from ridgeline.plan.state_moves import StatePlan, check_boundary, check_dropped, plan_states

_NOTHING: Mapping[str, str] = {}
_NUMBERS = count(1)
"""One for each state that this process moves."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """States and finished inputs, by physical id. `stems`: of the files that were written for states.

    `publishers`: their states, by the names of operators in the plan. `other`: the window before was of
    another version of the application.
    """

    states: Mapping[int, StateVersion]
    finished: frozenset[int] = frozenset()
    moved: frozenset[int] = frozenset()
    stems: tuple[str, ...] = ()
    publishers: Mapping[str, object] = field(default_factory=dict)
    other: bool = False


NOTHING = Beginning({})


def beginning(plan: Plan, checkpoint: Checkpoint, last: Manifest, planner: Planner | None) -> Beginning:
    """What a run begins with after a window, perhaps of another version of the application.

    Raises CheckpointError or StateError if a state would be lost or cannot move.
    """
    dropped, renamed = ((), _NOTHING) if planner is None else planner.taken_over(last.window_id)
    _check_dropped(plan, checkpoint, last, dropped)
    try:
        divided = {renamed.get(name, name): text for name, text in last.divided.items()}
        found = plan_states(last.states, plan, dropped=dropped, renamed=renamed, divided=divided)
        check_boundary(found, plan, last.window_id + 1)
    except ValidationError as error:
        faults = "; ".join(str(fault) for fault in error.faults)
        where = f"checkpoint folder `{checkpoint.storage.uri}`"
        msg = f"{where} is of another version of the application: {faults}"
        raise CheckpointError(msg) from None
    known = {one.state_key: one.id for one in plan.physical.operators}
    stays = all(known.get(key) == found.stays.get(key, -1) for key in last.states)
    same = stays and not found.moves and not found.ends and not renamed
    try:
        begin = moved(plan, checkpoint, last, found)
    except StateError as error:
        others = redivided(plan, divided)
        if not others:
            raise
        what = f"{listed(sorted(others))}: another partitioner or key than in the checkpoint"
        remedy = "go on with the one before, or drop the state (`--drop-state`)"
        msg = f"{error}; {what}; {remedy}"
        raise StateError(msg) from error
    return replace(begin, other=not same)


def _check_dropped(plan: Plan, checkpoint: Checkpoint, last: Manifest, dropped: Collection[str]) -> None:
    """Raise CheckpointError if a state is to be dropped that nothing has."""
    others = {key.rsplit("/", 2)[0] for key in last.finished} | {*last.publishers}
    try:
        check_dropped(dropped, last.states, others, plan)
    except ValidationError as error:
        faults = "; ".join(str(fault) for fault in error.faults)
        msg = f"checkpoint folder `{checkpoint.storage.uri}`: {faults}"
        raise CheckpointError(msg) from None


def moved(
    plan: Plan,
    checkpoint: Checkpoint,
    last: Manifest,
    found: StatePlan,
) -> Beginning:
    """Move the states that a window has left to a plan, or leave them as they are.

    Files that are written for it are kept until a window names them, or they are given up. Raises StateError,
    CheckpointError if they cannot be written.
    """
    states = {target: last.states[key] for key, target in found.stays.items() if key in last.states}
    files = SegmentFiles(checkpoint.storage, checkpoint.run_id)
    stems: list[str] = []
    changed: set[int] = set()

    def stem(operator: PhysicalOperator) -> str:
        name = state_files.moved_stem(last.window_id, operator.id, checkpoint.epoch, next(_NUMBERS))
        checkpoint.expect(name)
        stems.append(name)
        return name

    try:
        for one in found.moves:
            sources = [MoveSource(key, last.states.get(key, ())) for key in one.sources]
            targets = [plan.physical.operator(target) for target in one.targets]
            versions = move(files, sources, targets, stem, one.before)
            states.update(versions)
            changed.update(one.targets)
    except OSError as error:
        give_up(checkpoint, stems)
        raise CheckpointError(explain(checkpoint.storage.uri, error)) from error
    except BaseException:
        give_up(checkpoint, stems)
        raise
    finished = _finished(last.finished, plan, found)
    publishers = {
        found.renamed.get(name, name): state
        for name, state in last.publishers.items()
        if not found.is_dropped(name)
    }
    return Beginning(states, finished, frozenset(changed), tuple(stems), publishers)


def give_up(checkpoint: Checkpoint, stems: Iterable[str]) -> None:
    """No window will name these files."""
    for stem in stems:
        checkpoint.give_up(stem)


def _finished(keys: Iterable[str], plan: Plan, found: StatePlan) -> frozenset[int]:
    """The inputs that have finished. One with other partitions has if all partitions before had."""
    before: dict[str, set[int]] = {}
    partitions: dict[str, int] = {}
    for key in keys:
        name, partition, count = key.rsplit("/", 2)
        if found.is_dropped(name):
            continue
        name = found.renamed.get(name, name)
        before.setdefault(name, set()).add(int(partition))
        partitions[name] = int(count)
    return frozenset(
        operator.id
        for operator in plan.physical.operators
        if not operator.unifier and operator.name in before
        if (
            operator.partition in before[operator.name]
            if operator.partitions == partitions[operator.name]
            else len(before[operator.name]) == partitions[operator.name]
        )
    )
