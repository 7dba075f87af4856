"""The driver's half of input operators: their enumerators, which say what each window reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ridgeline.api.clock import Clock, SteadyTime
from ridgeline.api.enumerator import Enumerator, EnumeratorContext, OffsetRange
from ridgeline.api.errors import shorten
from ridgeline.api.operator import InputOperator, SparkSource
from ridgeline.api.support.secrets.addresses import mask_addresses
from ridgeline.engine.driver.outputs import call_on_driver, check_json, driver_halves, operators_of, staying
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import Budget, WindowReport, holding

if TYPE_CHECKING:
    from ridgeline.engine.driver.checkpoint.folder import Checkpoint

Read = Mapping[str, OffsetRange]
"""The ranges that a window reads, by input operator."""


def enumerator_context(plan: Plan, name: str, checkpoint: Checkpoint, clock: Clock) -> EnumeratorContext:
    """The surroundings of the enumerator of an operator, as long as no window reads."""
    return EnumeratorContext(
        application=plan.logical.application,
        operator=name,
        run_id=checkpoint.run_id,
        clock=clock,
        wake=lambda: None,
        check_owner=checkpoint.check_owner,
        warn=lambda _text: None,
        partitions=lambda: 1,
        staging=f"{checkpoint.storage.uri}/staging",
        windows_kept=plan.logical.attributes["windows_kept"],
    )


class Inputs:
    """All enumerators of an application, by operator. For one thread, but for `awake`.

    An exception of an enumerator ends the run: OperatorError that names the operator, or a RidgelineError as
    it is.
    """

    def __init__(
        self,
        plan: Plan,
        checkpoint: Checkpoint,
        clock: Clock,
        wake: Callable[[], None],
        warn: Callable[[str], None],
        on_problem: Callable[[int, str], None],
    ) -> None:
        """`wake`: lets the run look at `take_awake`; from any thread. `warn`: takes a text for people.

        `on_problem`: takes the first partition of an input and why its source does not answer, or an empty
        text once it does.
        """
        self.plan = plan
        self._checkpoint = checkpoint
        self._clock = clock
        self._wake = wake
        self._warn = warn
        self._on_problem = on_problem
        self._problems: dict[str, str] = {}
        """Why sources do not answer, by input operator."""
        self._awake = False
        self._enumerators: dict[str, Enumerator] = {}
        self._offsets: dict[str, Any] = {}
        """The ends of the last window that has begun."""
        self.taken: dict[str, float] = {}
        """How much of their budgets inputs take in the last window that has begun, as far as they say so."""
        self.waiting: dict[int, int] = {}
        """The tuples that inputs keep for the next windows, by physical id, as of the last commit."""
        self._budgets: Mapping[str, Budget] = {}
        self.time = SteadyTime(clock)
        """The time that windows get: timers and limits by the clock go by it."""

    def open(self, plan: Plan, offsets: Mapping[str, object]) -> None:
        """Read for a plan from where the last committed window ends; no window is under way.

        `offsets`: the ends as of that window. Enumerators stay open if their operators are the same. Raises
        what `open` of another one does; nothing has changed then.
        """
        found = _enumerators(plan, staying(operators_of(self.plan), plan, self._enumerators))
        opened: list[Enumerator] = []
        try:
            for name, enumerator in found.items():
                if enumerator is not self._enumerators.get(name):
                    opened.append(enumerator)
                    self._open(name, enumerator, offsets.get(name))
        except BaseException:
            _close(opened)
            raise
        _close(one for name, one in self._enumerators.items() if one is not found.get(name))
        self.plan, self._enumerators, self._offsets = plan, found, dict(offsets)

    def advance(self, window_id: int, budgets: Mapping[str, Budget]) -> Read:
        """The ranges that the window reads which begins now, with these budgets."""
        if not self._enumerators:
            return {}
        self._budgets, self.taken = budgets, {}
        read = {}
        for name, enumerator in self._enumerators.items():
            start = self._offsets.get(name)
            end = self._call(name, "advance", window_id, enumerator.advance, window_id, start)
            self._call(name, "advance", window_id, _check_offset, start, end)
            read[name] = OffsetRange(start, end)
            if enumerator.taken is not None:
                self.taken[name] = enumerator.taken
            self._ask_problem(name, enumerator)
        self._offsets = {name: one.end for name, one in read.items() if one.end is not None}
        return read

    def _ask_problem(self, name: str, enumerator: Enumerator) -> None:
        """Report it if a source has stopped to answer, or has begun to."""
        problem = mask_addresses(enumerator.problem)
        if problem != self._problems.get(name, ""):
            self._problems[name] = problem
            first = min(one.id for one in self.plan.physical.operators if one.name == name)
            self._on_problem(first, problem)

    def committed(self, window_id: int, read: Read, reports: Sequence[WindowReport] = ()) -> None:
        """A window is committed that has read this, and all windows before it. `reports`: of containers."""
        ran = [one for window in reports for one in window.operators]
        handed_over = {one.window.operator: one.handed_over for one in ran if one.handed_over}
        self.waiting = holding(reports)
        for name, enumerator in self._enumerators.items():
            if handed_over:
                own = (one.id for one in self.plan.physical.operators if one.name == name)
                values = [value for one in sorted(own) for value in handed_over.get(one, [])]
                if values:
                    self._call(name, "received", window_id, enumerator.received, window_id, values)
            if name in read:
                self._call(name, "committed", window_id, enumerator.committed, window_id, read[name].end)

    def cut(self, reports: Sequence[WindowReport]) -> int:
        """How many rows of Spark's last micro-batch wait after a window. `reports`: of its containers."""
        waiting, operator = holding(reports), self.plan.physical.operator
        return sum(rows for one, rows in waiting.items() if isinstance(operator(one).operator, SparkSource))

    def take_awake(self) -> bool:
        """Whether an enumerator has called `wake` since the last call."""
        awake, self._awake = self._awake, False
        return awake

    def close(self) -> None:
        """Close all enumerators."""
        _close(self._enumerators.values())

    def _open(self, name: str, enumerator: Enumerator, offset: object) -> None:
        """Open an enumerator where the last committed window ends. Raises what it does."""
        context = replace(
            enumerator_context(self.plan, name, self._checkpoint, self._clock),
            wake=self._on_wake,
            warn=lambda text: self._warn(mask_addresses(text)),
            partitions=partial(self._partitions, name),
            budget=lambda: self._budgets[name].records if name in self._budgets else math.inf,
        )
        self._call(name, "open", -1, enumerator.open, context, offset)

    def _partitions(self, name: str) -> int:
        """How many partitions an operator has; 1 if the plan before does not have it."""
        operators = self.plan.physical.operators
        return max(1, sum(one.name == name and not one.unifier and not one.slider for one in operators))

    def _on_wake(self) -> None:
        self._awake = True
        self._wake()

    def _call(self, name: str, callback: str, window_id: int, function: Any, *arguments: object) -> Any:
        return call_on_driver(self.plan.logical.application, name, callback, window_id, function, *arguments)


def _enumerators(plan: Plan, stay: Mapping[str, Enumerator]) -> dict[str, Enumerator]:
    """The enumerators of a plan."""
    return driver_halves(
        plan, stay, Enumerator, lambda one: one.enumerator() if isinstance(one, InputOperator) else None
    )


def _check_offset(start: object, end: object) -> None:
    """Raise TypeError for an offset that JSON cannot hold, ValueError for none after there was one."""
    if end is None and start is not None:
        raise ValueError(
            f"`advance` returned None after {shorten(start)}; return `start` if there is nothing to read"
        )
    check_json(end)


def _close(enumerators: Iterable[Enumerator]) -> None:
    for enumerator in enumerators:
        with suppress(Exception):
            enumerator.close()
