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
from ridgeline.plan.protocol import Budget, WindowReport
from ridgeline.stram.windows import InFlightWindow

FIRST_RECORDS = 1_000.0
"""What is read in the first window: nothing is known of the work that a record makes."""
LEAST_SECONDS = 0.5
"""The work of a window is bounded to no less by itself: each window costs something, however narrow."""
UNBOUNDED_SECONDS = 3_600.0
"""Windows that may have so much work have no bound."""
_NARROWEST_SECONDS = 0.05
"""No latency that is asked for bounds it to less."""
_UNDER_WAY = 3.0
"""A record waits for the window before its own, is in one, and waits for the commit."""
_GROWTH = 16.0
"""A short window that took all it might is followed by one that is larger by so much at most."""
_CAUTION = 4.0
"""After a change of the plan budgets begin at this part of what they were."""
_OVERDUE = 2.0
"""A window that has run for so many times the target has more work than it should."""
_FEWER_WINDOWS = 3
"""Over so many windows it is seen whether fewer records take less time."""
_SLOW = 4.0
"""A window that takes so many times the target would not be shorter with fewer records: a sink is slow."""
_SHORT = 0.25
"""A window with less than this part of the target says little about the work of a record."""


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
        asked = plan.logical.attributes["window_work"]
        target = _target(plan) if asked is None else float(asked)
        bounded = bounded and target < UNBOUNDED_SECONDS
        self.target = target if bounded else math.inf
        """The seconds of work that a window may have."""
        self._depth = 1
        """How many windows under way keep the slot busy that has most to do."""
        self._inputs = _inputs(plan) if bounded else {}
        self._stages = {container.id: container.stage for container in plan.execution.containers}
        self._last: dict[str, deque[tuple[float, float]]] = {
            name: deque(maxlen=_FEWER_WINDOWS) for name in self._inputs
        }
        """What the last windows have read of an input, and the seconds that this took."""
        self._fixed = dict.fromkeys(self._inputs, 0.0)
        """The seconds that a window takes however few records it has."""
        self._budgets = {
            name: Budget(max(1.0, before[name].records / _CAUTION) if name in before else FIRST_RECORDS)
            for name in self._inputs
        }
        self._long = bool(self._inputs)
        """Whether windows are so long that one more would wait; until one is known, they are taken to be."""

    @property
    def next(self) -> Mapping[str, Budget]:
        """The budgets of a window that begins now, by input operator; empty where nothing is bounded."""
        return dict(self._budgets)

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
        self._set_depth(reports)
        for name, found in self._inputs.items():
            if records[name] and name in window.budgets:
                work = _longest(report for report in reports if report.window.container in found.reached)
                share, most = records[name] / sum(records.values()), window.budgets[name].records
                full = records[name] >= most / 2 or not found.operators.isdisjoint(window.holding)
                budget, work = self._without_fixed(name, records[name], work)
                self._budgets[name] = self._following(budget, most, records[name], share, work, full=full)

    def _without_fixed(self, name: str, read: float, work: float) -> tuple[Budget, float]:
        """The budget so far, and the work that follows from what was read.

        Where fewer records take as long, as with a sink whose writes are slow, still fewer would not help.
        """
        budget, last = self._budgets[name], self._last[name]
        last.append((read, work))
        least, (first, before) = min(seconds for _, seconds in last), last[0]
        fewer = len(last) == _FEWER_WINDOWS and read <= first / _CAUTION
        if least < self._fixed[name] / 2:
            self._fixed[name] = 0.0
        elif not self._fixed[name] and fewer and least > max(_OVERDUE * self.target, before / 2):
            self._fixed[name], budget = least, budget._replace(records=first)
        return budget, max(0.0, work - self._fixed[name])

    def _following(
        self, budget: Budget, most: float, read: float, share: float, work: float, *, full: bool
    ) -> Budget:
        """The budget after a window that might read `most` records, and has read some that made `work`.

        `share`: the part that they are of what all inputs read. `work`: in seconds. `full`: more waited.
        """
        if work < _SHORT * self.target:
            growth = min(_GROWTH, self.target / (2 * work)) if work else _GROWTH
            return budget._replace(records=max(budget.records, read, growth * most)) if full else budget
        if not full and share < 1 / (2 * len(self._inputs)):
            return budget  # others have made the work
        fits = read * self.target / work
        if fits > budget.records:  # slowly, so that it does not swing; the more work, the better it is known
            fits = budget.records + (fits - budget.records) * work / (work + LEAST_SECONDS)
        return Budget(max(1.0, fits), measured=budget.measured or work > self.target)

    def enough_under_way(self, windows: int, seconds: float) -> bool:
        """True if a further window would only wait for those that run, so that a change had to wait longer.

        `windows`: how many run. `seconds`: how long the oldest of them has.
        """
        return windows >= self._depth and (self._long or seconds > _OVERDUE * self.target)

    def _set_depth(self, reports: Iterable[WindowReport]) -> None:
        """How many windows run if none waits for another (Little's law), and one that is ready.

        None is, if windows take so long that to begin one costs little, but a change had to wait for it.
        """
        stages: dict[int, float] = defaultdict(float)
        for report in reports:
            stage = self._stages.get(report.window.container, 0)
            stages[stage] = max(stages[stage], busy_seconds(report))
        longest = _longest(reports)
        ready = longest <= _SLOW * self.target
        self._depth = max(1, ready + math.ceil(sum(stages.values()) / longest - _SHORT)) if longest else 1
        self._long = longest > self.target / 2


def _target(plan: Plan) -> float:
    """The work of a window: less where results may not be so late, as one waits while another runs."""
    limits = [
        *(one.latency_limit() for one in plan.logical.promises),
        *(one.latency_limit() for one in plan.logical.policies),
    ]
    target = max(LEAST_SECONDS, plan.logical.window_seconds)
    return min([target, *(max(_NARROWEST_SECONDS, one / _UNDER_WAY) for one in limits if one is not None)])


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
