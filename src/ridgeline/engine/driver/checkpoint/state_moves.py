"""The states that a plan begins with: those of the windows before, moved to where it wants them."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from ridgeline.api.cells.migrations import migrations_of
from ridgeline.api.errors import CheckpointError, Fault, StateError, ValidationError, listed
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.files.storage import DriverStorage, Storage, TrialStorage, explained
from ridgeline.engine.state import state_files
from ridgeline.engine.state.converting import Converter
from ridgeline.engine.state.moving import MoveSource, move
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.measure.wording.units import plural
from ridgeline.plan.change.state_moves import (
    Outcome,
    StateMove,
    StatePlan,
    StateVerdict,
    check_boundary,
    check_dropped,
    plan_states,
    refused,
)
from ridgeline.plan.change.state_schemas import Comparison, held_states
from ridgeline.plan.change.state_shapes import class_names
from ridgeline.plan.change.succession import redivided
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import StateVersion

Asked = tuple[Collection[str], Mapping[str, str]]
"""Whose states are not wanted, and new names of operators."""
Keys = Sequence[PartitionKeys] | None
"""Which keys each partition had; None if that is not known."""
_NOTHING: Mapping[str, str] = {}
_NUMBERS = count(1)
"""One for each state that this process moves."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """States and finished inputs, by physical id. `stems`: of the files that were written for states.

    `publishers`, `inputs`: their states and offsets, by the names of operators in the plan. `other`: the
    window before was of another version of the application. `schemas`: what the states hold.
    """

    states: Mapping[int, StateVersion]
    finished: frozenset[int] = frozenset()
    moved: frozenset[int] = frozenset()
    stems: tuple[str, ...] = ()
    publishers: Mapping[str, object] = field(default_factory=dict)
    other: bool = False
    schemas: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, object] = field(default_factory=dict)


NOTHING = Beginning({})


@dataclass(frozen=True, slots=True)
class _Fate:
    """What becomes of the states of a window in a plan. `faults`: why that cannot be."""

    found: StatePlan
    comparison: Comparison
    faults: list[Fault]


def _fate_of(plan: Plan, storage: Storage, last: Manifest, asked: Asked) -> _Fate:
    """The fate of all states of a window that another run has left. `asked`: as of `Planner.asked`.

    Raises CheckpointError if a state is to be dropped that nothing has.
    """
    dropped, renamed = asked
    renamed = _with_former_names(plan, last, renamed)
    _check_dropped(plan, storage, last, dropped)
    faults: list[Fault] = []
    divided = {renamed.get(name, name): text for name, text in last.divided.items()}
    found = plan_states(_held(last), plan, dropped=dropped, renamed=renamed, divided=divided, faults=faults)
    try:
        check_boundary(found, plan, last.window_id + 1)
    except ValidationError as error:
        faults += error.faults
    comparison = _compared(plan, last, found, live=False)
    return _Fate(found, comparison, [*faults, *comparison.faults])


def check_states(
    plan: Plan, checkpoint: Checkpoint, planner: Planner | None, window: Manifest | None = None
) -> None:
    """Refuse a start that would lose a state or read it as another one, before Spark is started.

    `window`: that to which the run is about to be rewound, whose states are tried; None: the last one. Raises
    CheckpointError or StateError.
    """
    last = window or checkpoint.last()
    if last is not None:
        fate = _accepted(plan, checkpoint, last, _asked(planner, None if window else last))
        # A value that does not fit its new schema refuses the start before the run is rewound. Only what is
        # converted can fail so: states that are only moved would be read and written twice for nothing.
        if window is not None and any(fate.comparison.by_base.values()):
            trial = _Trial(checkpoint.storage, checkpoint.run_id, checkpoint.epoch)
            moved(plan, trial, window, fate.found, fate.comparison)


def _asked(planner: Planner | None, last: Manifest | None) -> Asked:
    """Whose states are not wanted, and new names."""
    if planner is None:
        return (), _NOTHING
    return planner.asked if last is None else planner.taken_over(last.window_id)


def _accepted(plan: Plan, checkpoint: Checkpoint, last: Manifest, asked: Asked) -> _Fate:
    """The fate of all states of a window. Raises CheckpointError if one would be lost."""
    fate = _fate_of(plan, checkpoint.storage, last, asked)
    if fate.faults:
        faults = "; ".join(map(str, fate.faults))
        where = f"checkpoint folder `{checkpoint.storage.uri}`"
        raise CheckpointError(f"{where} is of another version of the application: {faults}")
    return fate


def judge_states(
    plan: Plan, storage: DriverStorage, run_id: str, last: Manifest, planner: Planner
) -> list[StateVerdict]:
    """The fate of each state of a window if a run continued with a plan; nothing is written.

    States that would be converted or moved are read, as a trial. A driver may be at work in the folder.
    Raises CheckpointError if a state is to be dropped that nothing has, or a file cannot be read.
    """
    fate = _fate_of(plan, storage, last, planner.asked)
    found, verdicts = fate.found, fate.comparison.verdicts
    verdicts += [one for one in map(refused, fate.faults) if one not in verdicts]
    verdicts += [
        StateVerdict(base, Outcome.DROPPED, "as it was asked for")
        if found.is_dropped(base)
        else StateVerdict(base, Outcome.ENDED, "with its application window")
        for base in dict.fromkeys(map(_base, found.ends))
    ]
    verdicts += dict.fromkeys(map(_move_verdict, found.moves))
    if not any(one.outcome is Outcome.REFUSED for one in verdicts):
        try:
            moved(plan, _Trial(storage, run_id, last.epoch), last, found, fate.comparison)
        except StateError as error:
            where = error.operator or "state"
            kept = [one for one in verdicts if not f"{one.where}.".startswith(f"{where}.")]
            verdicts = [*kept, StateVerdict(where, Outcome.REFUSED, str(error))]
    return sorted(verdicts, key=lambda one: (one.where, one.outcome))


def _move_verdict(move: StateMove) -> StateVerdict:
    """The fate of the states of an operator whose partitions, or name, are others."""
    where = f"{move.operator}.{move.port}" if move.port else move.operator
    before, _, partitions = move.sources[0].rsplit("/", 2)
    was = before.partition("#")[0]
    parts = [] if was == where else [f"from `{was}`"]
    if len(move.sources) > 1 or len(move.targets) > 1:
        now = len(move.targets)
        parts.append(f"{plural(int(partitions), 'partition')} -> {now}")
    return StateVerdict(where, Outcome.MOVED, ", ".join(parts))


def beginning(plan: Plan, checkpoint: Checkpoint, last: Manifest, planner: Planner | None) -> Beginning:
    """The states that a run begins with after a window, perhaps of another version of the application.

    Raises CheckpointError or StateError if a state would be lost, cannot move, or is of other classes.
    """
    fate = _accepted(plan, checkpoint, last, _asked(planner, last))
    found, comparison = fate.found, fate.comparison
    known = {one.state_key: one.id for one in plan.physical.operators}
    stays = all(
        key in known and (not version or found.stays.get(key) == known[key])
        for key, version in last.states.items()
    )
    same = stays and not (found.moves or found.ends or found.renamed or any(comparison.by_base.values()))
    try:
        begin = moved(plan, checkpoint, last, found, comparison)
    except StateError as error:
        others = redivided(plan, {found.renamed.get(name, name): text for name, text in last.divided.items()})
        if not others:
            raise
        what = f"{listed(sorted(others))}: another partitioner or key than in the checkpoint"
        remedy = "go on with the one before, or drop the state (`--drop-state`)"
        raise StateError(f"{error}; {what}; {remedy}") from error
    return replace(begin, other=not same)


def _with_former_names(plan: Plan, last: Manifest, renamed: Mapping[str, str]) -> Mapping[str, str]:
    """New names of operators by those in a window, with those that migrations say."""
    bases = {_base(key) for key in (*last.states, *last.finished)}
    held = {*bases, *last.publishers, *last.inputs, *(base.rpartition(".")[0] for base in bases)}
    taken = {one.name for one in plan.logical.operators}
    found = dict(renamed)
    for one in plan.logical.operators:
        former = [step.was for _, step in migrations_of(one.operator) if not step.state]
        old = next((name for name in reversed(former) if name in held - taken and name not in found), None)
        if old is not None and one.name not in held and one.name not in found.values():
            found[old] = one.name
    return found


def _check_dropped(plan: Plan, storage: Storage, last: Manifest, dropped: Collection[str]) -> None:
    """Raise CheckpointError if a state is to be dropped that nothing has."""
    bases = {_base(key) for key in last.states}
    others = {_base(key) for key in last.finished} | {*last.publishers, *last.inputs}
    for base in bases:
        others |= {f"{base}.{state}" for state in held_states(last.schemas, base)}
    try:
        check_dropped(dropped, last.states, others, plan)
    except ValidationError as error:
        faults = "; ".join(str(fault) for fault in error.faults)
        raise CheckpointError(f"checkpoint folder `{storage.uri}`: {faults}") from None


def conversions_of(plan: Plan, last: Manifest, found: StatePlan) -> Comparison:
    """How the states of a window become those of a plan that follows while the application runs.

    Raises ValidationError with a fault for each state that would be lost or read as another one.
    """
    comparison = _compared(plan, last, found, live=True)
    comparison.faults.check(plan.logical.application)
    return comparison


def _compared(plan: Plan, last: Manifest, found: StatePlan, *, live: bool) -> Comparison:
    """The comparison of all states that are held, with its faults."""
    moves = ((key, one.targets[0]) for one in found.moves for key in one.sources)
    targets = {_base(key): target for key, target in [*moves, *found.stays.items()]}
    comparison = Comparison(
        last.schemas, plan.physical.operators, found.dropped, found.renamed, last.window_id + 1, live=live
    )
    for base, target in targets.items():
        comparison.compare(base, plan.physical.operator(target))
    return comparison


def _held(last: Manifest) -> list[str]:
    """The keys of the states of a window: operators that hold nothing may go without a word."""
    return [key for key, version in last.states.items() if version]


def _base(key: str) -> str:
    return key.rsplit("/", 2)[0]


def moved(
    plan: Plan,
    checkpoint: Checkpoint | _Trial,
    last: Manifest,
    found: StatePlan,
    comparison: Comparison | None = None,
) -> Beginning:
    """Move the states that a window has left to a plan, or leave them as they are.

    Files that are written for it are kept until a window names them, or they are given up. Raises StateError,
    ValidationError as `conversions_of`, CheckpointError if they cannot be written.
    """
    if comparison is None:
        comparison = conversions_of(plan, last, found)
    by_base = comparison.by_base
    states = {target: last.states[key] for key, target in found.stays.items() if key in last.states}
    files = SegmentFiles(checkpoint.storage, checkpoint.run_id)
    stems: list[str] = []
    changed: set[int] = set()
    classes: dict[str, set[type]] = {}

    def stem(operator: PhysicalOperator) -> str:
        name = state_files.moved_stem(last.window_id, operator.id, checkpoint.epoch, next(_NUMBERS))
        checkpoint.expect(name)
        stems.append(name)
        return name

    def rewrite(keys: Sequence[str], targets: Sequence[PhysicalOperator], before: Keys = None) -> None:
        """Write what was held under some keys as the states of some partitions."""
        base, sources = _base(keys[0]), [MoveSource(key, last.states.get(key, ())) for key in keys]
        changed.update(target.id for target in targets)
        if not (conversion := by_base.get(base)):
            states.update(move(files, sources, targets, stem, before))
            return
        converter = Converter(files, base, targets[0], conversion)
        with converter.refusing():
            states.update(move(files, sources, targets, stem, before, converter.changes))
        classes.setdefault(_base(targets[0].state_key), set()).update(converter.classes)

    try:
        with explained(checkpoint.storage.uri):
            for key, target in found.stays.items():
                if key in last.states and by_base.get(_base(key)):
                    rewrite([key], [plan.physical.operator(target)])
            for one in found.moves:
                rewrite(one.sources, list(map(plan.physical.operator, one.targets)), one.before)
    except BaseException:
        give_up(checkpoint, stems)
        raise
    finished = _finished(last.finished, plan, found)
    publishers, inputs = (
        {found.renamed.get(name, name): one for name, one in kept.items() if not found.is_dropped(name)}
        for kept in (last.publishers, last.inputs)
    )
    return Beginning(
        states,
        finished,
        frozenset(changed),
        tuple(stems),
        publishers,
        schemas=_with_classes(comparison, classes),
        inputs=inputs,
    )


def _with_classes(comparison: Comparison, classes: Mapping[str, Collection[type]]) -> Mapping[str, Any]:
    """What states hold, with the classes of values that were made."""
    remade = {name for one in comparison.by_base.values() for name in one.remade}
    schemas = {"states": copy.deepcopy(comparison.states)} if comparison.states else {}
    for base, made in classes.items():
        for name, shape in schemas.get("states", {}).get(base, {}).items():
            if name in remade:
                shape["classes"] = sorted({*shape["classes"], *class_names(made)})
    return schemas


class _Trial:
    """A checkpoint of which nothing is written: for what `moved` would do."""

    def __init__(self, storage: Storage, run_id: str, epoch: int) -> None:
        self.storage = TrialStorage(storage)
        self.run_id = run_id
        self.epoch = epoch

    def expect(self, stem: str) -> None:
        """It is gone with this."""

    def give_up(self, stem: str) -> None:
        """It is gone with this."""


def check_moves(plan: Plan, checkpoint: Checkpoint, found: StatePlan) -> None:
    """Raise what `moved` would as of the last commit; nothing is written.

    Any thread may call it, beside windows: files that are gone meanwhile are those of an older window.
    """
    while (last := checkpoint.last()) is not None:
        try:
            trial = _Trial(checkpoint.storage, checkpoint.run_id, checkpoint.epoch)
            moved(plan, trial, last, found)
        except (CheckpointError, StateError):
            if checkpoint.last() is not last:
                continue
            raise
        return


def give_up(checkpoint: Checkpoint | _Trial, stems: Iterable[str]) -> None:
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
