"""Plan an application with the properties that its checkpoint keeps, above its own, below those given now."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ridgeline.api.errors import CheckpointError, Fault, ValidationError
from ridgeline.api.files import is_local
from ridgeline.api.masking import mask_text
from ridgeline.engine.driver.differences import same
from ridgeline.engine.driver.journal import Journal
from ridgeline.engine.driver.kept_properties import NOTHING_KEPT, KeptProperties
from ridgeline.engine.driver.run_description import described
from ridgeline.engine.state.storage import DriverStorage, LocalStorage
from ridgeline.plan.draft import listed
from ridgeline.plan.execution import Plan
from ridgeline.plan.secret_properties import holds_secret

RESET = "`--reset-properties` takes the application's own"
_LONGEST_VALUE = 60

MakePlan = Callable[[Mapping[str, object]], Plan]
"""Plans an application with kept properties below those that this run is given."""


def read_kept(storage: DriverStorage, application: str) -> KeptProperties:
    """What a checkpoint keeps now, without owning it; nothing of a folder without a run.

    Raises CheckpointError if it is damaged or another application's, OSError.
    """
    run_id = described(storage, application)
    if run_id is None:
        return NOTHING_KEPT
    last = Journal(storage, run_id, appends=False).last
    return NOTHING_KEPT if last is None else last.properties


class Planner:
    """Plans an application with the properties that its checkpoint keeps.

    `make` plans with them. `given`: the properties that this run was given, which win and are kept from now
    on. `known`: names of properties that are given in any other way. `reset`: leave the kept ones out, and
    forget them with the first window.

    `first` plans before the checkpoint is owned, `settled` once it is.
    """

    def __init__(
        self,
        make: MakePlan,
        given: Mapping[str, object],
        *,
        known: Callable[[], Collection[str]] = dict,
        reset: bool = False,
    ) -> None:
        self._make = make
        self._given = given
        self._known = known
        self._reset = reset
        self._found = NOTHING_KEPT
        self._plan: Plan | None = None
        self.kept = NOTHING_KEPT
        """What the windows of this run keep."""

    def first(self, checkpoint: str | DriverStorage | None, application: str) -> Plan:
        """The plan with what a checkpoint keeps, as far as that can be read before Spark is started.

        Raises ValidationError with all faults, CheckpointError.
        """
        found = NOTHING_KEPT
        if isinstance(checkpoint, str):
            checkpoint = LocalStorage(checkpoint) if is_local(checkpoint) else None
        if checkpoint is not None:
            with contextlib.suppress(OSError):  # who opens it says why
                found = read_kept(checkpoint, application)
        return self.settled(found)

    def settled(self, found: KeptProperties) -> Plan:
        """The plan with what the checkpoint keeps; made anew only if it keeps something else than before.

        Raises ValidationError with all faults, CheckpointError if a secret must be given anew.
        """
        found = NOTHING_KEPT if self._reset else found.beside(self._given)
        if self._plan is None or not same(found.picture(), self._found.picture()):
            self._plan = self._planned(found)
            self._found = found
            withheld = [name for name, value in self._given.items() if self._is_withheld(name, value)]
            self.kept = found.joined(self._given, withheld)
        return self._plan

    @property
    def going_on(self) -> str:
        """Which kept properties the plan goes on with, in one line; "" for none."""
        if not self._found.values:
            return ""
        texts = [f"{name}={_shown(value)}" for name, value in self._found.values.items()]
        return f"goes on with properties of the run before: {', '.join(texts)} ({RESET})"

    @property
    def shown(self) -> dict[str, str]:
        """The kept properties that the plan goes on with, as texts."""
        return {name: _shown(value) for name, value in self._found.values.items()}

    def _planned(self, found: KeptProperties) -> Plan:
        """Plan with kept properties. Faults that they cause say so."""
        missing = [name for name in found.withheld if name not in self._known()]
        if missing:
            what = "which the run before was given and the checkpoint does not keep"
            again = " ".join(f"-D {name}=..." for name in missing)
            msg = (
                f"{listed(missing)}: a secret, or no JSON value, {what}; give it anew (`{again}`), or {RESET}"
            )
            raise CheckpointError(msg)
        try:
            return self._make(found.values)
        except ValidationError as error:
            if not found.values:
                raise
            raise ValidationError(error.application, self._explained(error.faults)) from None

    def _explained(self, faults: Sequence[Fault]) -> list[Fault]:
        """The same faults; those that are gone without the kept properties say how to get rid of them."""
        own: set[Fault] = set()
        try:
            self._make({})
        except ValidationError as error:
            own.update(error.faults)
        kept = "the checkpoint keeps it from the run before"
        remedy = f"; {kept}: `-D` gives another value, {RESET}"
        return [fault if fault in own else replace(fault, remedy=fault.remedy + remedy) for fault in faults]

    def _is_withheld(self, name: str, value: object) -> bool:
        """True for what no checkpoint keeps: secrets, and what has no JSON form."""
        assert self._plan is not None  # noqa: S101  made just before
        try:
            is_json = same(json.loads(json.dumps(value)), value)
        except (TypeError, ValueError, RecursionError):
            is_json = False
        return not is_json or holds_secret(self._plan.logical, name, value)


def _shown(value: object) -> str:
    """A value in a line of text."""
    text = mask_text(value if isinstance(value, str) else json.dumps(value))
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
