"""The verdict on a source: evidence, and tables of rules of which the first one that fits says the word.

`SAMPLES` are about the samples of a source. They remember nothing but the verdict before. So the same
evidence gives the same verdict, and a question changes nothing. `APPLICATION` looks at the schedule of the
windows beside them, where the samples say nothing or are old.

The growth counts as 0 (`not catching up`) as soon as it is within 5 % of the drain rate. It also does within
1.5 times its own standard error, which follows from the scatter of its samples. That ends when it is beyond
7.5 % and beyond 4 standard errors. A direct change from falling to catching up takes 2 standard errors.
Likewise `keeping up` begins when what is left is at most what two windows drain, and ends at four. While
windows are late it begins at one, if what is left does not grow, and ends at two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, TypeAlias

from ridgeline.measure.progress.trend import Trend

_HOLDS, _HOLDS_ERRORS = 0.05, 1.5  # of the drain rate; standard errors
_LEAVES, _LEAVES_ERRORS = 0.075, 4.0  # ... beyond which it no longer holds
_TURNS_ERRORS = 2.0  # ... beyond which falling turns into growing, and the reverse
KEEPS_UP_WINDOWS, LEAVES_WINDOWS = 2.0, 4.0
"""What these windows drain may be left when an application begins to keep up, and until it does no more."""
_LATE = 0.5  # of these while windows are late


class Verdict(StrEnum):
    """Whether an application keeps up with what arrives, the best first.

    `keeping up`: nothing is left, or what two windows drain. `paced`: the rest is not due yet. `catching up`:
    the backlog falls. `not catching up`: it neither falls nor grows. `settling`: the run or its plan has just
    begun. `falling behind`: it grows. `stuck`: there is a backlog and nothing has been taken or consumed for
    three windows, at least 5 seconds. (If the samples' distance is longer than a window, three of these
    count.) Or windows are under way, and nothing was committed or has moved for two windows, at least 5
    seconds. `unreachable`: it does not answer. `unknown`: the backlog is not known, is infinite, or was not
    seen for long enough.
    """

    KEEPING_UP = "keeping up"
    PACED = "paced"
    CATCHING_UP = "catching up"
    NOT_CATCHING_UP = "not catching up"
    SETTLING = "settling"
    FALLING_BEHIND = "falling behind"
    STUCK = "stuck"
    UNREACHABLE = "unreachable"
    UNKNOWN = "unknown"


BEHIND = frozenset({Verdict.CATCHING_UP, Verdict.NOT_CATCHING_UP, Verdict.FALLING_BEHIND, Verdict.STUCK})
"""The verdicts of an application that has a backlog."""
_MOVING = frozenset({Verdict.FALLING_BEHIND, Verdict.CATCHING_UP})
EARLY = frozenset({Verdict.CATCHING_UP, Verdict.NOT_CATCHING_UP, Verdict.FALLING_BEHIND, Verdict.UNKNOWN})
"""What needs to see the application work for a while."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of those that are known; `unknown` if none is."""
    order = tuple(Verdict)
    return max(
        (verdict for verdict in verdicts if verdict is not Verdict.UNKNOWN),
        key=order.index,
        default=Verdict.UNKNOWN,
    )


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the samples of a source say.

    `before`: the verdict on the sample before. `waits`: what is left, None if unknown or without end.
    `at_least`: there may be more. `a_window`: what is drained in the width of a window. `fewest`: what may
    always be left. `late`: a window runs that is or will be late. `still`: nothing has moved for too long.
    `trend`: of what is left. `drain`, `arrival`: per second, None if unknown.
    """

    before: Verdict
    waits: float | None
    at_least: bool
    a_window: float
    fewest: float
    late: bool
    still: bool
    trend: Trend | None
    drain: float | None
    arrival: float | None

    @property
    def little(self) -> bool:
        """So little is left that it keeps up."""
        keeps = self.before is Verdict.KEEPING_UP
        windows = (LEAVES_WINDOWS if keeps else KEEPS_UP_WINDOWS) * (_LATE if self.late else 1.0)
        little = (self.waits or 0.0) <= max(self.fewest, windows * self.a_window)
        return self.waits == 0 or (little and (not self.late or keeps or self._does_not_grow))

    @property
    def _does_not_grow(self) -> bool:
        known = self.trend is not None and bool(self.drain)
        return known and not (self.grows and self._beyond(_HOLDS, _HOLDS_ERRORS))

    @property
    def unclear(self) -> bool:
        """It was not seen for long enough. Beside a standstill it was, if it was ever seen to drain."""
        trend = self.trend
        short = trend is None or (trend.steps < 2 and not trend.changed)  # noqa: PLR2004  a change of it
        return short or (self.drain == 0 and self.before is Verdict.UNKNOWN)

    @property
    def grows(self) -> bool:
        """More is left than before."""
        return self.trend is not None and self.trend.rate > 0

    @property
    def holds(self) -> bool:
        """The growth counts as 0."""
        if self.before is Verdict.NOT_CATCHING_UP:
            return not self._beyond(_LEAVES, _LEAVES_ERRORS)
        turns = self.before in _MOVING and self.before is not self.direction
        return not self._beyond(_HOLDS, _TURNS_ERRORS if turns else _HOLDS_ERRORS)

    @property
    def direction(self) -> Verdict:
        """As what is left says."""
        return Verdict.FALLING_BEHIND if self.grows else Verdict.CATCHING_UP

    @property
    def by_rates(self) -> Verdict | None:
        """As the rates of arrival and of work say, which lag a little; None if they are not known."""
        if self.arrival is None:
            return None
        return Verdict.FALLING_BEHIND if self.arrival > (self.drain or 0.0) else Verdict.CATCHING_UP

    @property
    def rates_differ(self) -> bool:
        """They are clearly not the same."""
        drain = self.drain or 0.0
        return self.arrival is not None and abs(self.arrival - drain) > _LEAVES * drain

    def _beyond(self, share: float, errors: float) -> bool:
        return self.trend is not None and self.trend.beyond(share * (self.drain or 0.0), errors)


@dataclass(frozen=True, slots=True)
class Situation:
    """What else is known of a source in its application.

    `samples`: the verdict on them, and `schedule`: on the windows alone. `problem`: it does not answer.
    `hangs`: nothing moves in the application. `endless`, `paced`: what is left has no end, or is not due.
    `nothing`: it has nothing left, and no window has. `waits`: something is left. `starts`: the first window
    runs, and `silent`: it has sent no heartbeat. `behind`: windows are too far behind their schedule.
    `flows`: what is left is in windows in flight, as many as usual, that begin in time. `old`: the samples
    are, and windows are late. `unseen`: the window before was late, and what this one holds is not seen.
    """

    samples: Verdict
    schedule: Verdict
    problem: bool = False
    hangs: bool = False
    endless: bool = False
    paced: bool = False
    nothing: bool = False
    waits: bool = False
    starts: bool = False
    silent: bool = False
    behind: bool = False
    flows: bool = False
    old: bool = False
    unseen: bool = False

    @property
    def late(self) -> Verdict:
        """The verdict on windows that are far behind their schedule."""
        return Verdict.FALLING_BEHIND if self.schedule is Verdict.KEEPING_UP else self.schedule


Rule: TypeAlias = tuple[Callable[[Any], bool], Verdict | Callable[[Any], Verdict]]
"""When it fits, and the word."""
_as_before, _as_samples, _as_schedule = attrgetter("before"), attrgetter("samples"), attrgetter("schedule")

SAMPLES: tuple[Rule, ...] = (
    (lambda one: one.waits is None, Verdict.UNKNOWN),
    (lambda one: one.little and one.at_least, Verdict.UNKNOWN),
    (lambda one: one.little, Verdict.KEEPING_UP),
    (lambda one: one.still, Verdict.STUCK),
    (lambda one: one.unclear and one.late and one.before is Verdict.KEEPING_UP, Verdict.UNKNOWN),
    (lambda one: one.unclear, _as_before),
    (lambda one: one.rates_differ and one.by_rates is one.before, _as_before),
    (lambda one: one.holds, Verdict.NOT_CATCHING_UP),
    (
        lambda one: one.before is Verdict.KEEPING_UP and one.by_rates not in {None, one.direction},
        Verdict.KEEPING_UP,
    ),
    (lambda one: True, attrgetter("direction")),  # noqa: ARG005  whatever it is
)
APPLICATION: tuple[Rule, ...] = (
    (lambda one: one.problem, Verdict.UNREACHABLE),
    (lambda one: one.hangs, Verdict.STUCK),
    (lambda one: one.endless, _as_schedule),
    (
        lambda one: one.paced and one.schedule not in {Verdict.KEEPING_UP, Verdict.UNKNOWN},
        _as_schedule,
    ),
    (lambda one: one.paced and one.nothing, Verdict.KEEPING_UP),
    (lambda one: one.paced, Verdict.PACED),
    (lambda one: one.samples is Verdict.STUCK and one.starts and one.silent, Verdict.UNKNOWN),
    (
        lambda one: one.samples is Verdict.UNKNOWN and one.waits and one.behind and not one.starts,
        attrgetter("late"),
    ),
    (lambda one: one.flows, Verdict.KEEPING_UP),
    (lambda one: one.samples is Verdict.KEEPING_UP and one.unseen, Verdict.UNKNOWN),
    (
        lambda one: one.samples is Verdict.KEEPING_UP and one.old and one.schedule is Verdict.KEEPING_UP,
        Verdict.UNKNOWN,
    ),
    (lambda one: one.samples is Verdict.KEEPING_UP and one.old, _as_schedule),
    (lambda one: True, _as_samples),  # noqa: ARG005  whatever it is
)


def by_rules(rules: tuple[Rule, ...], known: Evidence | Situation) -> Verdict:
    """The verdict of the first rule that fits."""
    word = next(word for fits, word in rules if fits(known))
    return word if isinstance(word, Verdict) else word(known)
