"""Which states must move when a plan follows another one, and the fate of each state, for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ridgeline.api.errors import Fault, Faults, did_you_mean
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import PartitionKeys, assign_keys
from ridgeline.api.support.loops import DelayHead
from ridgeline.plan.build.unifiers import lasting_states
from ridgeline.plan.change.succession import divided_plainly, is_by_value, redivided
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import LogicalOperator, module_of
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.same_values import same_value

_NOTHING: Mapping[str, str] = {}
_SLIDER = "#slider of "


@dataclass(frozen=True, slots=True)
class StateMove:
    """The states of an operator's partitions become those of its partitions in the new plan.

    `operator` is the name in the new plan; `port` is that of the unifiers whose states move, "" for the
    operator itself. `sources`: the state keys (`PhysicalOperator.state_key`) of what is there, by partition.
    `targets`: the physical ids in the new plan, by partition. With one source and one target the state is
    taken over as it is. `before`: which keys each partition had, None if that is not known.
    """

    operator: str
    port: str
    sources: tuple[str, ...]
    targets: tuple[int, ...]
    before: tuple[PartitionKeys, ...] | None = None


@dataclass(frozen=True, slots=True)
class StatePlan:
    """For each state that is held: whether it stays, moves or ends.

    `stays`: the physical ids in the new plan of those that keep their keys. `moves`: what moves. `ends`: the
    keys of those that are left out: dropped, and what unifiers have only within an application window.
    `gathered`: the operators whose unifiers are among these. `dropped` and `renamed`: what was asked for.
    """

    stays: Mapping[str, int] = field(default_factory=dict)
    moves: tuple[StateMove, ...] = ()
    ends: tuple[str, ...] = ()
    gathered: tuple[str, ...] = ()
    dropped: Collection[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def is_dropped(self, operator: str) -> bool:
        """True if the state of an operator, as it was called before, is not wanted."""
        return any(name in self.dropped for name in (operator, *_modules(operator)))


def staying(plan: Plan) -> StatePlan:
    """Of the states that a plan has: all stay."""
    return StatePlan({one.state_key: one.id for one in plan.physical.operators})


def plan_states(
    held: Iterable[str],
    new: Plan,
    *,
    old: Plan | None = None,
    dropped: Collection[str] = (),
    renamed: Mapping[str, str] = _NOTHING,
    divided: Mapping[str, str] = _NOTHING,
    faults: list[Fault] | None = None,
) -> StatePlan:
    """Decide for each state that is held whether it stays, moves or ends in a new plan.

    `held`: the keys of the states that there are, as a manifest has them. `old`: the plan that they are of,
    where it is known: then partitions that are divided otherwise move too. `dropped`: names of operators, of
    modules or of unifiers (`operator.port`), whose state is not wanted. `renamed`: new names by old ones.
    `divided`: how tuples were divided, as `divisions` says it, by the names of operators in the new plan.

    Adds a fault for each state that would be lost, and for each that cannot move; without `faults` raises
    ValidationError with them.
    """
    planner = _StatePlanner(new, old, dropped, renamed, divided)
    found = planner.settled(_by_base(held))
    if faults is not None:
        faults += planner.faults
    else:
        planner.faults.check(new.logical.application)
    return found


def check_boundary(states: StatePlan, plan: Plan, window_id: int) -> None:
    """Raise ValidationError if a plan cannot begin with this window, since application windows are open.

    State within one cannot be divided otherwise, so partitions change only between application windows.
    """
    divided = [one.operator for one in states.moves if len(one.sources) > 1 or len(one.targets) > 1]
    faults = Faults()
    for name in dict.fromkeys([*divided, *states.gathered]):
        given = plan.logical.operator(name).attributes
        count = given["slide_by_window_count"] or given["application_window_count"]
        if window_id % count:
            open_now = f"its application window of {count} windows is open at window {window_id}"
            what = f"{open_now}, and what it has of it cannot be divided anew"
            remedy = "let the run before end with one (`--windows`), or drop the state: "
            faults.add(name, what, f"{remedy}`--drop-state {name}`")
    faults.check(plan.logical.application)


def check_dropped(dropped: Collection[str], held: Iterable[str], others: Iterable[str], plan: Plan) -> None:
    """Raise ValidationError with a fault for each name that is not wanted and that nothing is called.

    `held`: the keys of the states that there are. `others`: names of operators of which something else is
    kept. One that holds nothing, but is in the plan, may be named.
    """
    bases = [key.rsplit("/", 2)[0].partition(_SLIDER)[0] for key in held]
    names = {*bases, *others}
    names |= {base.rpartition(".")[0] for base in bases if "." in base}
    names |= {module for name in names for module in _modules(name)}
    logical = {one.name for one in plan.logical.operators}
    known = {*names, *logical, *(module for name in logical for module in _modules(name))}
    what = "its state is to be dropped, but the checkpoint has none of that name"
    faults = Faults()
    for name in dropped:
        if name not in known and not _is_unifier(name, plan):
            faults.add(name, what, f"{did_you_mean(name, names)}; leave it out if it was dropped before")
    faults.check(plan.logical.application)


def _is_unifier(name: str, plan: Plan) -> bool:
    """True if a name is that of an operator of the plan and an output port of it."""
    owner = name.rpartition(".")[0]
    return any(one.name == owner and _has_output(one, name) for one in plan.logical.operators)


def _by_base(held: Iterable[str]) -> dict[str, list[tuple[int, int, str]]]:
    """The keys of each operator, or of the unifiers of a port, as (partition, partitions, key), in order."""
    found: dict[str, list[tuple[int, int, str]]] = {}
    for key in held:
        base, partition, partitions = key.rsplit("/", 2)
        found.setdefault(base, []).append((int(partition), int(partitions), key))
    return {base: sorted(keys) for base, keys in sorted(found.items())}


class _StatePlanner:
    """Settles what becomes of the states of one operator, or of the unifiers of one port, after the other."""

    def __init__(
        self,
        new: Plan,
        old: Plan | None,
        dropped: Collection[str],
        renamed: Mapping[str, str],
        divided: Mapping[str, str],
    ) -> None:
        self.stays: dict[str, int] = {}
        self.moves: list[StateMove] = []
        self.ends: list[str] = []
        self.gathered: list[str] = []
        self.faults = Faults()
        self._dropped, self._renamed, self._divided = dropped, renamed, divided
        self._redivided = redivided(new, divided)
        self._targets = _groups(new)
        self._before = {} if old is None else _groups(old)
        self._logical = {one.name: one for one in new.logical.operators}
        self._taken: dict[str, str] = {}

    def settled(self, bases: Mapping[str, list[tuple[int, int, str]]]) -> StatePlan:
        """What becomes of the states of all these operators and ports."""
        for base, keys in bases.items():
            self.settle(base, keys)
        self.settle_unifiers_of_slides(bases)
        gathered = tuple(dict.fromkeys(self.gathered))
        moves, ends = tuple(self.moves), tuple(self.ends)
        return StatePlan(self.stays, moves, ends, gathered, self._dropped, self._renamed)

    def settle(self, base: str, keys: list[tuple[int, int, str]]) -> None:
        """Say what becomes of the states with these keys."""
        owner, rest = self._owner(base)
        unifiers = owner + rest.partition(_SLIDER)[0]
        if self._is_dropped(owner, unifiers):
            self.ends += [key for _, _, key in keys]
            return
        name = self._renamed.get(owner, owner)
        targets = self._targets.get(name + rest, [])
        if not targets:
            self._without(base, name, rest, keys)
            return
        if name + rest in self._taken:
            what = f"both `{self._taken[name + rest]}` and `{base}` have state, of which one would be lost"
            self.faults.add(name, what, f"drop one of them: `--drop-state {name}`")
            return
        self._taken[name + rest] = base
        ids = tuple(one.id for one in targets)
        sources = tuple(key for _, _, key in keys)
        partitions = {of for _, of, _ in keys}
        if partitions == {len(targets)} and not self._is_redivided(base, targets):
            for partition, _, key in keys:
                if name == owner:
                    self.stays[key] = ids[partition]
                else:
                    self.moves.append(StateMove(name, _port(rest), (key,), (ids[partition],)))
        elif rest:
            self._unify_again(name, rest, keys, targets)
        elif isinstance(targets[0].operator, DelayHead):
            self.ends += sources  # it reads the tail's state, and has none
        else:
            self.moves.append(StateMove(name, "", sources, ids, self._keys_before(base, targets[0], keys)))

    def _keys_before(
        self, base: str, target: PhysicalOperator, keys: list[tuple[int, int, str]]
    ) -> tuple[PartitionKeys, ...] | None:
        """Which keys each partition of an operator had; None if that is not known."""
        count = max(of for _, of, _ in keys)
        before = self._before.get(base)
        if before is not None:
            ports = [port for port in before[0].keys if is_by_value(before[0], port)]
            found = [tuple(one.keys[port] for one in before if port in one.keys) for port in ports]
            return found[0] if found and len(found[0]) == count and len(set(found)) == 1 else None
        plain = tuple(assign_keys(count))
        text = self._divided.get(target.name)
        if text is None:  # kept by an older version
            custom = target.attributes.get("partitioner") or target.operator.partitioner_default
            return None if custom else plain
        return plain if divided_plainly(text, plain, target.keys) else None

    def _owner(self, base: str) -> tuple[str, str]:
        """The name of the operator, and what follows it: a port with a dot before it, or nothing."""
        before = self._before.get(base)
        if before is not None:
            return before[0].name, base.removeprefix(before[0].name)
        known = {*self._logical, *self._renamed, *self._dropped}
        if base in known:
            return base, ""
        path = base.partition(_SLIDER)[0] if _SLIDER in base else base
        owner = path.rpartition(".")[0]
        if owner in known and (owner not in self._logical or _has_output(self._logical[owner], path)):
            return owner, base.removeprefix(owner)
        return base, ""

    def _without(self, base: str, name: str, rest: str, keys: list[tuple[int, int, str]]) -> None:
        """Settle states that the new plan has no place for."""
        if rest and name in self._logical:
            self._unify_again(name, rest, keys, [])
            return
        plain = base.partition(_SLIDER)[0]
        what = f"the application has no operator `{plain}` any more, but the checkpoint has its state"
        if name != base:
            what = f"`{base}` is to be called `{name}`, but the application has no such operator"
        remedy = f"`--drop-state {plain}` drops it, `--rename {plain}=NEW` gives it to another operator"
        self.faults.add(plain, what, remedy)

    def settle_unifiers_of_slides(self, held: Mapping[str, list[tuple[int, int, str]]]) -> None:
        """Let unifiers that are new behind sliders know since when these have all: slides are merged then."""
        for base, keys in held.items():
            owner, rest = self._owner(base)
            name = self._renamed.get(owner, owner)
            unifiers = f"{owner}.{_port(rest)}"
            group = self._targets.get(f"{name}.{_port(rest)}", [])
            if _SLIDER in rest and group and unifiers not in held and not self._is_dropped(owner, unifiers):
                sources, ids = tuple(key for _, _, key in keys), tuple(one.id for one in group)
                self.moves.append(StateMove(name, _port(rest), sources, ids))

    def _is_dropped(self, owner: str, unifiers: str) -> bool:
        return any(name in self._dropped for name in (owner, unifiers, *_modules(owner)))

    def _unify_again(
        self, name: str, rest: str, keys: list[tuple[int, int, str]], targets: list[PhysicalOperator]
    ) -> None:
        """Settle states of unifiers, or sliders, of which there are others now."""
        port, operator = _port(rest), self._logical[name].operator
        move = StateMove(name, port, tuple(key for _, _, key in keys), tuple(one.id for one in targets))
        declared = operator.unifier_of(port)
        unifies = declared is not None or operator_type(type(operator)).every_output[port].unifier
        if _SLIDER in rest and targets and (len(targets) == 1 or unifies):
            self.moves.append(move)
            return
        if _SLIDER in rest:
            what = "it slides, and what it keeps of its slides cannot be divided anew"
            remedy = "leave its partitions and slides as they are, or drop them: "
            self.faults.add(name, what, f"{remedy}`--drop-state {name}.{port}`")
            return
        kind = declared if isinstance(declared, type) else type(declared)
        if declared is not None and (lasting := lasting_states(kind)):
            what = f"its unifier keeps `{lasting[0]}` for longer than an application window"
            remedy = f'declare it with `scope="window"`, or drop it: `--drop-state {name}.{port}`'
            self.faults.add(f"{name}.{port}", f"{what}, which cannot be divided anew", remedy)
            return
        self.gathered.append(name)
        if targets and targets[0].slides:
            self.moves.append(move)
        else:
            self.ends += [key for _, _, key in keys]

    def _is_redivided(self, base: str, targets: list[PhysicalOperator]) -> bool:
        """True if partitions get other tuples than before, though they are as many."""
        before = self._before.get(base)
        if len(targets) == 1 or targets[0].unifier:
            return False
        if before is None:
            return targets[0].name in self._redivided
        return any(
            old.keys != new.keys or old.round_robin != new.round_robin or not _same_keys(old, new)
            for old, new in zip(before, targets, strict=True)
        )


def _groups(plan: Plan) -> dict[str, list[PhysicalOperator]]:
    """The partitions of each operator, and the unifiers of each port, by what their state keys begin with."""
    found: dict[str, list[PhysicalOperator]] = {}
    for one in plan.physical.operators:
        found.setdefault(one.state_key.rsplit("/", 2)[0], []).append(one)
    return {base: sorted(group, key=lambda one: one.partition) for base, group in found.items()}


def _same_keys(old: PhysicalOperator, new: PhysicalOperator) -> bool:
    """True if ports that are divided by key have the same keys."""
    before, after = operator_type(type(old.operator)).inputs, operator_type(type(new.operator)).inputs
    return all(same_value(before[port].codec, after[port].codec) for port in new.keys if port in before)


def _port(rest: str) -> str:
    """The port in what follows an operator's name in a state key."""
    return rest.partition(_SLIDER)[0].removeprefix(".")


def _has_output(operator: LogicalOperator, path: str) -> bool:
    """True if `operator.port` names an output port of it."""
    return path.rpartition(".")[2] in operator_type(type(operator.operator)).every_output


def _modules(name: str) -> Iterator[str]:
    """The modules that an operator is in, by name."""
    while name := module_of(name):
        yield name


class Outcome(StrEnum):
    """The fate of a state."""

    KEPT = "kept"
    CONVERTED = "converted"
    MOVED = "moved"
    DROPPED = "dropped"
    ENDED = "ended"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class StateVerdict:
    """The fate of one state, or of all of an operator. `where`: as `operator.state`, or the operator."""

    where: str
    outcome: Outcome
    why: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        text = "; ".join(part for part in (self.why, self.remedy) if part)
        return f"{self.outcome:9}  {self.where}{f': {text}' if text else ''}"


def refused(fault: Fault) -> StateVerdict:
    """The fate of a state that a start would refuse."""
    return StateVerdict(fault.where, Outcome.REFUSED, fault.what, fault.remedy)
