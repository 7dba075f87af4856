"""Plan an application with the properties that its checkpoint keeps, above its own, below those given now."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ridgeline.api.errors import CheckpointError, Fault, Faults, ValidationError, listed, shorten
from ridgeline.api.support.files import is_local
from ridgeline.api.support.masking import mask_text
from ridgeline.engine.driver.checkpoint.journal import Journal
from ridgeline.engine.driver.checkpoint.journal_record import difference
from ridgeline.engine.driver.checkpoint.manifest import Manifest, Properties
from ridgeline.engine.driver.checkpoint.resuming import ResumeOptions
from ridgeline.engine.driver.checkpoint.run_description import described
from ridgeline.engine.files.storage import DriverStorage, LocalStorage
from ridgeline.plan.change.edit_texts import edit_text
from ridgeline.plan.change.shorter_edits import shortened
from ridgeline.plan.edits import (
    AddOperator,
    Edit,
    RemoveOperator,
    RenameOperator,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
    edit_of,
    edit_to_json,
)
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.shown_properties import holds_secret
from ridgeline.plan.transition import Transition, transition

RESET = "`--reset-properties` takes the application's own"
_LONGEST_VALUE = 60

MakePlan = Callable[[Mapping[str, object], Sequence[Edit], Sequence[Edit]], Plan]
"""Plans an application with kept properties and kept edits below what this run is given, and edits above."""
RESET_CHANGES = "`--reset-changes` leaves it out"


def read_last(storage: DriverStorage, application: str) -> Manifest | None:
    """The last window of a checkpoint, without owning it; None without one.

    Raises CheckpointError if it is damaged or another application's, OSError.
    """
    run_id = described(storage, application)
    return None if run_id is None else Journal(storage, run_id, appends=False).last


def counted_on(plan: Plan, last: Manifest | None) -> Plan:
    """A plan whose windows are counted as those of a checkpoint, without what rewinds have left out."""
    passed_over = 0 if last is None else last.passed_over
    return plan if plan.passed_over == passed_over else replace(plan, passed_over=passed_over)


@dataclass(frozen=True, slots=True)
class Kept:
    """What the next window keeps of what the application was given, and of the changes in this run.

    `edits`: as JSON; those of properties are kept as `properties`. `made`: the edits of this run. `noted`:
    the same, without the values of new operators that no checkpoint keeps.
    """

    properties: Properties = field(default_factory=dict)
    edits: tuple[Mapping[str, Any], ...] = ()
    made: tuple[Edit, ...] = ()
    noted: tuple[Edit, ...] = ()


class Planner:
    """Plans an application with the properties that its checkpoint keeps.

    `make` plans with them. `given`: the properties that this run was given, which win and are kept from now
    on. `known`: names of properties that are given in any other way. `resume`: what of the checkpoint is
    left out, dropped or renamed.

    `first` plans before the checkpoint is owned, `settled` once it is.
    """

    def __init__(
        self,
        make: MakePlan,
        given: Mapping[str, object],
        *,
        known: Callable[[], Collection[str]] = dict,
        resume: ResumeOptions | None = None,
    ) -> None:
        self._make = make
        self._given = given
        self._known = known
        self._resume = resume or {}
        self._taken_over: int | None = None
        """The window whose states are dropped and renamed."""
        self._found: Properties = {}
        self._edits: tuple[Edit, ...] = ()
        """Those that the checkpoint keeps."""
        self._plan: Plan | None = None
        self.kept = Kept()
        """What the windows of this run keep."""

    def first(self, checkpoint: str | DriverStorage | None, application: str) -> Plan:
        """The plan with what a checkpoint keeps, as far as that can be read before Spark is started.

        Raises ValidationError with all faults, CheckpointError.
        """
        last: Manifest | None = None
        if isinstance(checkpoint, str):
            checkpoint = LocalStorage(checkpoint) if is_local(checkpoint) else None
        if checkpoint is not None:
            with contextlib.suppress(OSError):  # who opens it says why
                last = read_last(checkpoint, application)
        return self.settled(last)

    def settled(self, last: Manifest | None) -> Plan:
        """The plan with what the last window keeps; made again only if it keeps something else than before.

        Raises ValidationError with all faults, CheckpointError if a secret must be given again.
        """
        found: Properties = {}
        if last is not None and not self._resume.get("reset_properties"):
            found = beside(last.properties, self._given)
        edits: tuple[Edit, ...] = ()
        if last is not None:
            edits = tuple(map(edit_of, last.edits))
        if self._resume.get("reset_changes"):
            found, edits = _before(edits, found), ()
        known = difference(found, self._found) is None and edits == self._edits
        if self._plan is None or self.kept.made or not known:  # the checkpoint has what was committed of it
            self._plan = self._planned(found, edits)
            self._found, self._edits = found, edits
            withheld = [name for name, value in self._given.items() if self._is_withheld(name, value)]
            self.kept = Kept(joined(found, self._given, withheld), self._texts(()))
        self._plan = counted_on(self._plan, last)
        return self._plan

    def taken_over(self, window_id: int) -> tuple[Collection[str], Mapping[str, str]]:
        """Whose states of a window are not wanted, and new names of operators by those in that window.

        Both are about the window that the first driver begins after. A later one of the same run, which goes
        on from a window of its own, has nothing to drop or rename.
        """
        if self._taken_over is None:
            self._taken_over = window_id
        return self.asked if window_id == self._taken_over else ((), {})

    @property
    def asked(self) -> tuple[Collection[str], Mapping[str, str]]:
        """What `taken_over` gives for the first window that it is asked for."""
        return self._resume.get("drop_state", ()), self._resume.get("rename") or {}

    @property
    def from_window(self) -> int | None:
        """The window that the run starts again from, if from one that the checkpoint keeps."""
        return self._resume.get("from_window")

    def changed(self, plan: Plan, edits: Sequence[Edit]) -> Transition:
        """Apply more edits to a plan of this run. Raises ValidationError with all faults.

        Edits that no checkpoint can keep are among them: a value of an attribute that has no JSON form.
        """
        Faults(fault for edit in edits for fault in _not_kept(edit)).check(plan.logical.application)
        return transition(plan, self._make(self.found, self._edits, (*self.kept.made, *edits)), edits)

    def keep(self, edits: Sequence[Edit], plan: Plan) -> None:
        """The plan is that with these edits from now on. Give `kept` its value of before to take that back.

        `plan`: what they have made, which knows the secrets among the properties of new operators.
        """
        logical, properties, noted = plan.logical, self.kept.properties, self.kept.noted
        for edit in edits:
            plain, withheld = self._without_secrets(edit, logical)
            noted = tuple(shortened((*noted, plain)))
            match edit:
                case SetProperty(operator, name, value):
                    key = f"{operator}.{name}"
                    secret = [key] if self._is_withheld(key, value, logical) else []
                    properties = joined(properties, {key: value}, secret)
                case RemoveOperator(operator) | ReplaceOperator(operator, _):
                    properties = without(properties, operator)
                case RenameOperator(operator, new):
                    properties = renamed(without(properties, new), operator, new)
            properties = joined(properties, dict.fromkeys(withheld), withheld)
        made = tuple(shortened((*self.kept.made, *edits)))
        self.kept = Kept(properties, self._texts(noted), made, noted)

    def _texts(self, noted: Sequence[Edit]) -> tuple[Mapping[str, Any], ...]:
        """The edits that windows keep, with those of this run: all but those of properties."""
        edits = shortened((*self._edits, *noted))
        return tuple(edit_to_json(edit) for edit in edits if not isinstance(edit, SetProperty))

    def _without_secrets(self, edit: Edit, logical: LogicalPlan) -> tuple[Edit, list[str]]:
        """An edit without the properties of a new operator that no checkpoint keeps, and their names."""
        if not isinstance(edit, AddOperator | ReplaceOperator):
            return edit, []
        given = edit.spec.get("properties")
        properties: Mapping[str, object] = given if isinstance(given, Mapping) else {}
        keys = {name: f"{edit.name}.{name}" for name in properties}
        withheld = [name for name, key in keys.items() if self._is_withheld(key, properties[name], logical)]
        if not withheld:
            return edit, []
        left = {name: value for name, value in properties.items() if name not in withheld}
        noted = replace(edit, spec={**edit.spec, "properties": left})
        return noted, [keys[name] for name in withheld]

    @property
    def resume_note(self) -> str:
        """The properties and edits that the checkpoint keeps for the plan, for people; "" for none."""
        lines = []
        if shown := self.shown:
            texts = [f"{name}={value}" for name, value in shown.items()]
            lines.append(f"goes on with properties of the run before: {', '.join(texts)} ({RESET})")
        if self._edits:
            texts = list(map(edit_text, self._edits))
            lines.append(f"goes on with changes of runs before: {'; '.join(texts)} ({RESET_CHANGES})")
        return "\n".join(lines)

    @property
    def found(self) -> Mapping[str, object]:
        """The properties that the checkpoint keeps and the plan uses, by name."""
        return _values(self._found)

    @property
    def shown(self) -> dict[str, str]:
        """The kept properties that the plan uses, as texts."""
        return {name: _shown(value) for name, value in self.found.items()}

    def _planned(self, found: Properties, edits: Sequence[Edit]) -> Plan:
        """Plan with what is kept. Faults that it causes say so."""
        missing = [name for name, value in found.items() if not value and name not in self._known()]
        if missing:
            what = "which the run before was given and the checkpoint does not keep"
            again = " ".join(f"-D {name}=..." for name in missing)
            raise CheckpointError(
                f"{listed(missing)}: a secret, or no JSON value, {what}; give it anew (`{again}`), or {RESET}"
            )
        values = _values(found)
        try:
            return self._make(values, edits, ())
        except ValidationError as error:
            if not (edits or values):
                raise
            kept = "the checkpoint keeps it from the run before"
            remedies: dict[Fault, str] = {}
            if values:
                remedy = f"{kept}: `-D` gives another value, {RESET}"
                remedies |= dict.fromkeys(self._gone(error, {}, edits), remedy)
            if edits:
                remedy = f"{kept}: {RESET_CHANGES}"
                remedies |= dict.fromkeys(self._gone(error, values, ()), remedy)
            raise ValidationError(
                error.application,
                [
                    replace(fault, remedy=f"{fault.remedy}; {remedies[fault]}")
                    if fault in remedies
                    else fault
                    for fault in error.faults
                ],
            ) from None

    def _gone(
        self, error: ValidationError, values: Mapping[str, object], edits: Sequence[Edit]
    ) -> list[Fault]:
        """The faults that are not there with these kept values and edits instead."""
        try:
            self._make(values, edits, ())
        except ValidationError as other:
            return [fault for fault in error.faults if fault not in other.faults]
        return list(error.faults)

    def _is_withheld(self, name: str, value: object, logical: LogicalPlan | None = None) -> bool:
        """True for what no checkpoint keeps: secrets, and what has no JSON form."""
        assert self._plan is not None  # noqa: S101  made just before
        return not _has_json(value) or holds_secret(logical or self._plan.logical, name, value)


def _not_kept(edit: Edit) -> Iterator[Fault]:
    """A fault for an edit whose value has no JSON form, where the checkpoint keeps the edit itself."""
    if isinstance(edit, SetAttribute) and not _has_json(edit.value):
        where = ".".join(part for part in (edit.operator, edit.port, edit.attribute) if part)
        what = f"no checkpoint can keep {shorten(edit.value)} of a change: it has no JSON form"
        remedy = 'give plain data; of a partitioner `{"class": ..., "properties": ...}`'
        yield Fault(where, what, remedy)


def _has_json(value: object) -> bool:
    """True if a value can be read again from its JSON."""
    try:
        return difference(json.loads(json.dumps(value)), value) is None
    except (TypeError, ValueError, RecursionError):
        return False


def _before(edits: Sequence[Edit], kept: Properties) -> Properties:
    """The kept properties of the operators that an application has without edits, by their names in it."""
    for edit in reversed(edits):
        match edit:
            case AddOperator(name, _) | ReplaceOperator(name, _):
                kept = without(kept, name)
            case RenameOperator(name, new):
                kept = renamed(kept, new, name)
    return kept


# Kept properties --------------------------------------------------------------------------------------------


def _values(kept: Properties) -> dict[str, object]:
    """The values of those that are kept as a whole."""
    return {name: value[0] for name, value in kept.items() if value}


def beside(kept: Properties, given: Collection[str]) -> Properties:
    """Those that are not given again. A whole one takes the place of its entries too.

    >>> beside({"in.options.topic": ["a"], "in.count": ["5"], "in.options.password": []}, ["in.options"])
    {'in.count': ['5']}
    """

    def stays(name: str) -> bool:
        parts = name.split(".")
        return not any(".".join(parts[:length]) in given for length in range(1, len(parts) + 1))

    return {name: value for name, value in kept.items() if stays(name)}


def joined(kept: Properties, given: Mapping[str, object], withheld: Collection[str]) -> Properties:
    """With those that are given again, without the values of those that are `withheld`.

    >>> joined({"sum.limit": ["5"]}, {"sum.limit": "6", "in.token": "x"}, ["in.token"])
    {'sum.limit': ['6'], 'in.token': []}
    """
    added = {name: [] if name in withheld else [value] for name, value in given.items()}
    return {**beside(kept, given), **added}


def without(kept: Properties, operator: str) -> Properties:
    """Without those of an operator, or of all in a module."""
    return {name: value for name, value in kept.items() if not name.startswith(f"{operator}.")}


def renamed(kept: Properties, old: str, new: str) -> Properties:
    """With those of an operator under its new name.

    >>> renamed({"sum.limit": ["5"], "sums.limit": ["6"]}, "sum", "total")
    {'total.limit': ['5'], 'sums.limit': ['6']}
    """
    inside = f"{old}."
    return {
        f"{new}.{name.removeprefix(inside)}" if name.startswith(inside) else name: value
        for name, value in kept.items()
    }


def _shown(value: object) -> str:
    """A value in a line of text."""
    text = mask_text(value if isinstance(value, str) else json.dumps(value))
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
