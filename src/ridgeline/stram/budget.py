"""How many records each input may read in the next window, so that no window has work for long.

A window that took all that waits would take longer the more waits, and more waits the longer it takes. So the
work of a window is bounded in time. How many records that are follows from the windows before. It is the rule
of Spark's rate estimator and of Flink's debloated buffers. Pure: no clock.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ridgeline.api.operator import InputOperator
from ridgeline.api.support.loops import DelayHead
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import Budget, WindowReport, holding
from ridgeline.stram.windows import InFlightWindow

FIRST_RECORDS = 1_000.0
"""What is read in the first window: nothing is known of the work that a record makes."""
LEAST_SECONDS = 0.5
"""The work of a window is bounded to no less by itself: each window costs something, however narrow."""
UNBOUNDED_SECONDS = 3_600.0
"""Windows that may have so much work have no bound."""
_MOST_SECONDS = 1.0
"""Up to so much work a window has where it takes long however few records it has: so that counts less."""
_WORK_OF_FIXED = 9.0
"""The work that a window should have for each second that it takes however few records it has."""
_NARROWEST_SECONDS = 0.05
"""No latency that is asked for bounds it to less."""
_UNDER_WAY = 3.0
"""A record waits for the window before its own, is in one, and waits for the commit."""
_GROWTH = 16.0
"""A short window that took all it might is followed by one that is larger by so much at most."""
_CAUTION = 4.0
"""After a change of the plan budgets begin at this part of what they were.

Windows whose records differ by so much show what does not depend on them.
"""
_OVERDUE = 2.0
"""A window that has run for so many times what the last one has has more work than it should."""
_COMPARED = 8
"""Over so many windows it is seen how much longer more records take."""
_SLOW = 4.0
"""A window that takes so many times the target would not be shorter with fewer records: a sink is slow."""
_SHORT = 0.25
"""A window with less than this part of the target says little about the work of a record."""
_LITTLE = 0.1
"""One with less than this says nothing if it was not full: it might be what any window takes."""


class _Input(NamedTuple):
    """An input operator: its partitions, and the containers that its records may reach."""

    operators: frozenset[int]
    reached: frozenset[int]


class Budgets:
    """The budget of each input operator. `learn` is told of each window that is complete."""

    def __init__(self, plan: Plan, before: Mapping[str, Budget], *, bounded: bool) -> None:
        """`bounded`: false where windows take no time that counts. `before`: those of the plan before.

        After a change of the plan budgets begin at a part of what they were.
        """
        asked, limits = plan.logical.attributes["window_work"], _limits(plan)
        usual = max(LEAST_SECONDS, plan.logical.window_seconds)
        target = min([usual, *limits]) if asked is None else float(asked)
        bounded = bounded and target < UNBOUNDED_SECONDS
        self.target = target if bounded else math.inf
        """The seconds of work that a window may have."""
        self._most = target if limits or asked is not None else max(target, _MOST_SECONDS)
        self._busy = 0.0, 0.0
        """How long the last window took in all stages, and in the slot that has most to do."""
        self._depth = 1
        """How many windows under way keep the slot busy that has most to do."""
        self._inputs = _inputs(plan) if bounded else {}
        self._stages = {container.id: container.stage for container in plan.execution.containers}
        self._last: dict[str, deque[tuple[float, float]]] = {
            name: deque(maxlen=_COMPARED) for name in self._inputs
        }
        """What the last windows have read of an input, and the seconds that this took."""
        self.publishing = 0.0
        """How long outputs took on the driver for the last windows that were published, if that was long."""
        self._budgets = dict.fromkeys(self._inputs, Budget(FIRST_RECORDS)) | {
            name: one._replace(records=max(1.0, one.records / _CAUTION))
            for name, one in before.items()
            if name in self._inputs
        }
        self._long = bool(self._inputs)
        """Whether windows are so long that one more would wait; until one is known, they are taken to be."""
        self._overdue = math.inf
        """A window that runs for longer has more work than the last one."""

    @property
    def next(self) -> Mapping[str, Budget]:
        """The budgets of a window that begins now, by input operator; empty where nothing is bounded."""
        return dict(self._budgets)

    def published(self, seconds: float) -> None:
        """Take in how long outputs took on the driver for the last windows."""
        if seconds:
            seconds = max(seconds, self.publishing / 2)  # some publish several windows together
            self.publishing = seconds if seconds > self.target / 2 else 0.0
            self._set_depth()

    def learn(self, window: InFlightWindow) -> None:
        """Take in a window that is complete."""
        if not self._inputs:
            return
        reports = tuple(window.reports.values())
        emitted: dict[int, float] = {
            one.window.operator: sum(one.window.tuples_out.values())
            for report in reports
            for one in report.operators
        }
        records = {
            name: window.taken.get(name, sum(emitted.get(one, 0.0) for one in found.operators))
            for name, found in self._inputs.items()
        }
        stages: dict[int, float] = defaultdict(float)
        for report in reports:
            stage = self._stages.get(report.window.container, 0)
            stages[stage] = max(stages[stage], busy_seconds(report))
        self._busy = sum(stages.values()), _longest(reports)
        self._set_depth()
        waiting = holding(reports)
        for name, found in self._inputs.items():
            if records[name] and name in window.budgets:
                work = _longest(report for report in reports if report.window.container in found.reached)
                work += self.publishing
                most = window.budgets[name].records
                full = records[name] >= most / 2 or bool(found.operators & waiting.keys())
                if full or 2 * len(self._inputs) * records[name] >= sum(records.values()):
                    self._last[name].append((records[name], work))
                    self._budgets[name] = self._following(name, most, full=full)
                # else others have made the work

    def _following(self, name: str, most: float, *, full: bool) -> Budget:
        """The budget after the last window, which might read `most` records. `full`: more waited."""
        budget = self._with_fixed(name)
        read, work = self._last[name][-1]
        work, target = max(0.0, work - budget.fixed), self._target(budget.fixed)
        if work < (_SHORT if full else _LITTLE) * target:
            growth = _CAUTION if budget.fixed else _GROWTH
            growth = min(growth, target / (2 * work)) if work else growth
            return budget._replace(records=max(budget.records, read, growth * most)) if full else budget
        fits = read * target / work
        if fits > budget.records:  # slowly, so that it does not swing; the more work, the better it is known
            fits = budget.records + (fits - budget.records) * work / (work + LEAST_SECONDS)
        return budget._replace(records=max(1.0, fits), measured=True)

    def _target(self, fixed: float) -> float:
        """The work that a window should have beside what it takes however few records it has."""
        return max(self.target, min(_WORK_OF_FIXED * fixed, self._most))

    def _with_fixed(self, name: str) -> Budget:
        """The budget so far, with what the last windows say of what each takes however few records it has.

        Where fewer records take as long, as with a sink whose writes are slow, still fewer would not help.
        """
        budget, last = self._budgets[name], self._last[name]
        (few, short), (many, long) = min(last), max(last)
        least = min(seconds for _, seconds in [*last][-2:])
        if least < budget.fixed / 2:
            return budget._replace(fixed=0.0)
        if long < short / 2:  # what was before does not hold any more
            self._last[name] = deque([*last][-2:], _COMPARED)
        if many < _CAUTION * few or long < short / 2:
            return budget._replace(fixed=min(budget.fixed, least))
        each = max(0.0, long - short) / (many - few)
        fixed = max(0.0, min(least, short - each * few))
        fits = min(many, self._target(fixed) / each) if each else many
        return budget._replace(records=max(budget.records, fits), fixed=fixed)

    def enough_under_way(self, windows: int, seconds: float) -> bool:
        """True if a further window would only wait for those that run, so that a change had to wait longer.

        `windows`: how many run; where outputs take long, those that wait for them, too. `seconds`: how long
        the oldest of them has.
        """
        # fewer than the usual number leave a slot without work, however long the oldest takes
        return windows >= self._depth and (self._long or seconds > self._overdue)

    def _set_depth(self) -> None:
        """How many windows run if none waits for another (Little's law), and one that is ready.

        None is, if windows take so long that to begin one costs little, but a change had to wait for it.
        """
        stages, longest = self._busy
        stages, longest = stages + self.publishing, max(longest, self.publishing)
        ready = longest <= _SLOW * self.target
        self._depth = max(1, ready + math.ceil(stages / longest - _SHORT)) if longest else 1
        self._long = longest > self.target / 2
        self._overdue = max(self.target / 2, _OVERDUE * stages)


def _limits(plan: Plan) -> list[float]:
    """The most work of a window where results may not be late: one waits while another runs."""
    found = [
        *(one.latency_limit() for one in plan.logical.promises),
        *(one.latency_limit() for one in plan.logical.policies),
    ]
    return [max(_NARROWEST_SECONDS, one / _UNDER_WAY) for one in found if one is not None]


def busy_seconds(report: WindowReport) -> float:
    """How long a container worked on a window."""
    return max(0.0, report.window.ended - report.window.began)


def _longest(reports: Iterable[WindowReport]) -> float:
    """How long the slot worked that had most to do: its containers work one after the other."""
    slots: dict[tuple[str, int], float] = defaultdict(float)
    for report in reports:
        slots[report.window.host, report.window.pid] += busy_seconds(report)
    return max(slots.values(), default=0.0)


def _inputs(plan: Plan) -> dict[str, _Input]:
    """The input operators by their logical names."""
    home = plan.execution.homes
    after: dict[int, set[int]] = defaultdict(set)
    for stream in plan.physical.streams:
        after[stream.source].add(stream.sink)
    found: dict[str, set[int]] = defaultdict(set)
    for one in plan.physical.operators:
        if isinstance(one.operator, InputOperator) and not isinstance(one.operator, DelayHead):
            found[one.name].add(one.id)
    inputs = {}
    for name, operators in found.items():
        reached, waiting = set(operators), list(operators)
        while waiting:
            new = after[waiting.pop()] - reached
            reached |= new
            waiting += new
        inputs[name] = _Input(frozenset(operators), frozenset(home[one] for one in reached))
    return inputs
