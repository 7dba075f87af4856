"""Asks listeners and policies for decisions, has them made, and compares what came with what was said."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ridgeline.api.errors import RidgelineError, described
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.policy import Policy
from ridgeline.api.support.masking import mask_text, masked_and_capped
from ridgeline.measure.deciding.figures import ApplicationFigures
from ridgeline.measure.events import PolicyDecided
from ridgeline.plan.change.edit_texts import edits_text
from ridgeline.plan.edits import Edit
from ridgeline.plan.logical import LogicalPlan
from ridgeline.policies.answers import (
    APPLIED,
    ASKED,
    FAILED,
    HELPED,
    MISSED,
    REFUSED,
    Decision,
    decisions_of,
    shown,
)

_FAULTS_KEPT = 100
_TRACEBACK_LIMIT = 4_000


class Pending(Protocol):
    """A change that was asked for, as `ridgeline.engine.driver.run.changes.Asked`."""

    number: int
    state: str
    reason: str
    done: Any


Ask = Callable[[tuple[Edit, ...], str, str], Pending]
"""Asks for a change: edits, note, who."""


@dataclass(slots=True)
class _Decider:
    """A listener of an operator, or a policy (`operator` ""). `busy`: a decision of its own is under way."""

    who: str
    one: Any
    operator: str = ""
    busy: bool = False

    def decisions(self, figures: ApplicationFigures) -> list[Decision]:
        """Its decisions. Raises what it raises, and TypeError for anything but an answer."""
        if not self.operator:
            return decisions_of(self.one.decide(figures))
        own = figures.operators.get(self.operator)
        return [] if own is None else decisions_of(self.one.observe(own), own)


@dataclass(slots=True)
class _Made:
    """A decision under way. `since`: when its change has had effect, None while it waits."""

    number: int
    decider: _Decider
    decision: Decision
    asked: Pending
    undoes: int | None = None
    since: float | None = None

    @property
    def look_at(self) -> float:
        """How long after the change it can be seen what came of it."""
        return max((one.seconds for one in self.decision.expects), default=0.0)


def _own(one: Any) -> Any:
    """The listener itself; of an operator that observes itself a copy: its author's does not change."""
    return copy.copy(one) if isinstance(one, Operator) else one


class Deciders:
    """All that decide on one application. One thread at a time.

    `listeners`: by operator. `ask` asks for a change, `report` gets each state of a decision, whose number is
    greater than `first_id`. A decider that raises is reported once for each fault, and asked again; with
    `strict` `look` raises RidgelineError.
    """

    def __init__(
        self,
        listeners: Mapping[str, Sequence[Any]],
        policies: Sequence[Policy],
        ask: Ask,
        report: Callable[[PolicyDecided], None],
        *,
        first_id: int = 0,
        strict: bool = False,
    ) -> None:
        self._deciders = [
            _Decider(f"listener {type(one).__name__} of {operator}", _own(one), operator)
            for operator, several in listeners.items()
            for one in several
        ]
        self._deciders += [_Decider(f"policy {type(one).__name__}", one) for one in policies]
        self._ask, self._report, self._strict = ask, report, strict
        self._made: list[_Made] = []
        self._count = first_id
        self._faults: set[tuple[str, str]] = set()
        self._last: int | None = None
        self._plan: LogicalPlan | None = None

    def planned(self, plan: LogicalPlan) -> None:
        """Operators that observe themselves see their properties as this plan has them.

        The memory of an operator stays.
        """
        if plan is self._plan:
            return
        self._plan, operators = plan, {one.name: one.operator for one in plan.operators}
        for decider in self._deciders:
            now = operators.get(decider.operator)
            if isinstance(decider.one, Operator) and type(now) is type(decider.one):
                for name in operator_type(type(now)).properties.keys() & vars(now).keys():
                    setattr(decider.one, name, copy.deepcopy(getattr(now, name)))

    def __bool__(self) -> bool:
        return bool(self._deciders)

    def look(self, figures: ApplicationFigures) -> None:
        """Windows were committed: see what came of decisions, and ask for new ones."""
        self.follow(figures)
        if figures.committed is None or figures.committed == self._last:
            return
        self._last = figures.committed
        for decider in self._deciders:
            if not decider.busy:
                try:
                    for decision in decider.decisions(figures):
                        self._make(decider, decision, figures.at)
                except Exception as error:  # noqa: BLE001  code of users may raise anything
                    self._fault(decider, error, figures.at)

    def follow(self, figures: ApplicationFigures) -> None:
        """See what came of decisions."""
        for made in list(self._made):
            self._follow(made, figures)

    def _fault(self, decider: _Decider, error: Exception, at: float) -> None:
        """Report what a decider has raised, the first time."""
        why = described(error)
        if self._strict:
            raise RidgelineError(f"{decider.who} has failed: {why}") from error
        if (decider.who, why) not in self._faults and len(self._faults) < _FAULTS_KEPT:
            self._faults.add((decider.who, why))
            self._count += 1
            trace = masked_and_capped("".join(traceback.format_exception(error)), _TRACEBACK_LIMIT)
            self._report(
                PolicyDecided(at, self._count, decider.who, FAILED, why, "it has failed", found=trace)
            )

    def _make(self, decider: _Decider, decision: Decision, at: float, undoes: int | None = None) -> None:
        """Ask for the change of a decision."""
        self._count += 1
        note = mask_text(str(decision.note))
        made = _Made(self._count, decider, decision, self._ask(decision.edits, note, decider.who), undoes)
        decider.busy = True
        self._made.append(made)
        self._say(made, at, ASKED)

    def _say(self, made: _Made, at: float, state: str, found: str = "") -> None:
        """Report the state of a decision, also to the policy or listener that made it."""
        decision = made.decision
        self._report(
            PolicyDecided(
                at,
                made.number,
                made.decider.who,
                state,
                mask_text(str(decision.note)),
                edits_text(decision.edits),
                "; ".join(map(str, decision.expects)),
                found,
                made.asked.number,
                made.undoes,
            )
        )
        receive = getattr(made.decider.one, "told", None)
        if receive is not None and state != ASKED:
            try:
                receive(decision, state)
            except Exception as error:  # noqa: BLE001  code of users may raise anything
                self._fault(made.decider, error, at)

    def _follow(self, made: _Made, figures: ApplicationFigures) -> None:
        """See what has become of a decision."""
        if not made.asked.done.is_set():
            return
        if made.asked.state != APPLIED:
            self._end(made, figures.at, REFUSED, made.asked.reason or made.asked.state.lower())
        elif made.since is None:
            made.since = figures.at
            if made.decision.expects:
                self._say(made, figures.at, APPLIED)
            else:
                self._end(made, figures.at, APPLIED)
        elif figures.at - made.since >= made.look_at:
            self._judge(made, figures)

    def _judge(self, made: _Made, figures: ApplicationFigures) -> None:
        """Compare what came with what was expected; take back what did not help."""
        texts, helped = [], False
        for one in made.decision.expects:
            try:
                found = one.found(figures)
            except KeyError:
                found = None
            helped |= found is not None and one.helped(found)
            texts.append(f"{one}, found {shown(one.figure, found)}")
        # one kept expectation is enough: several figures describe the same change
        self._end(made, figures.at, HELPED if helped else MISSED, "; ".join(texts))
        if not helped and made.decision.undo:
            note = "it did not bring what was expected"
            self._make(made.decider, Decision(made.decision.undo, note), figures.at, made.number)

    def _end(self, made: _Made, at: float, state: str, found: str = "") -> None:
        self._made.remove(made)
        # one answer may hold several decisions
        made.decider.busy = any(other.decider is made.decider for other in self._made)
        self._say(made, at, state, found)
