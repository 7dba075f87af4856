"""Who decides in an application, and what it promises, as an author writes it.

Listeners and policies are classes with annotated fields as properties. Each promise names a figure, its
limit, and the period that counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ridgeline.api.support.duration import parse_duration

if TYPE_CHECKING:
    from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures
    from ridgeline.policies.answers import Answer, Decision

Kind = Literal[
    "latency",
    "window_latency",
    "record_age",
    "caught_up_within",
    "error_share",
    "late_share",
    "loss",
    "throughput",
]
UNITS: dict[Kind, str] = {
    "latency": "s",
    "window_latency": "s",
    "record_age": "s",
    "caught_up_within": "s",
    "error_share": "share",
    "late_share": "share",
    "loss": "share",
    "throughput": "tuples/s",
}
QUANTILES = frozenset({"latency", "window_latency", "record_age"})
"""The kinds that are about a quantile."""
LONGEST = 30 * 86_400.0
"""The longest period, in seconds."""


def side(kind: str) -> str:
    """On which side of its limit a figure keeps a promise of this kind: `at least` or `at most`."""
    return "at least" if kind == "throughput" else "at most"


class StatsListener(BaseModel, ABC):
    """Sees the figures of one operator whenever windows are committed, and answers with changes of it.

    Given as `add_operator(..., stats_listeners=[MoreWhenLate()])`. An operator that is a listener itself
    defines `observe` as well. It runs on the driver, beside the windows, in a thread of deciders. Annotated
    fields are its properties; what it remembers goes into fields that begin with `_`. It is lost when the
    driver ends.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    @abstractmethod
    def observe(self, figures: OperatorFigures) -> Answer | Iterable[Answer] | None:
        """Answer with the changes to make; None: none. Exceptions are reported, and it is asked again.

        It is not asked while a change of its own waits.
        """


class Policy(BaseModel, ABC):
    """Sees the figures of the whole application whenever windows are committed, and decides on changes.

    Given as `app.add_policy(...)`. Properties and memory as of `StatsListener`.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    @abstractmethod
    def decide(self, figures: ApplicationFigures) -> Decision | Iterable[Decision] | None:
        """Decide on changes; None: all stays. Exceptions are reported, and it is asked again.

        It is not asked while a change of its own waits, or while it is not seen yet what came of one.
        """

    def latency_limit(self) -> float | None:
        """How late results may be, in seconds, if that is what it keeps: windows have the less work then."""
        return None

    def told(self, decision: Decision, state: str) -> None:
        """Receive the outcome of a decision: `APPLIED`, `REFUSED`, `HELPED` or `MISSED`."""


class Promise(BaseModel):
    """One promise. `limit` is in the unit of its kind; `percent`: of which quantile; `over`: seconds.

    Made by the functions below, such as `latency`. `operator` is empty for promises of the whole application.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind
    operator: str = ""
    limit: float = Field(ge=0, allow_inf_nan=False)
    percent: Literal[50, 90, 99] = 99
    over: float = Field(default=60.0, gt=0, le=LONGEST)

    @property
    def name(self) -> str:
        """Its name in tables, metrics and alerts: no two promises of an application share it."""
        quantile = f"_p{self.percent}" if self.kind in QUANTILES else ""
        return ":".join(part for part in (f"{self.kind}{quantile}", self.operator) if part)

    def latency_limit(self) -> float | None:
        """As of a `Policy`."""
        return self.limit if self.kind in QUANTILES else None

    @property
    def unit(self) -> str:
        """The unit of its limit and of its figure."""
        return UNITS[self.kind]


def latency(
    operator: str,
    *,
    p50: Any = None,
    p90: Any = None,
    p99: Any = None,
    over: Any = "1m",
) -> Promise:
    """Promise the latency of an operator: that quantile of the windows of the period is at most so long."""
    return _quantile("latency", operator, (p50, p90, p99), over)


def window_latency(*, p50: Any = None, p90: Any = None, p99: Any = None, over: Any = "1m") -> Promise:
    """Promise the time from a window's trigger to its commit: that quantile is at most so long."""
    return _quantile("window_latency", "", (p50, p90, p99), over)


def record_age(
    operator: str,
    *,
    p50: Any = None,
    p90: Any = None,
    p99: Any = None,
    over: Any = "1m",
) -> Promise:
    """Promise how old records are where an output lets go of them: that quantile of the period's records.

    Once readers may see them, if the output publishes; else once their window is committed.
    """
    return _quantile("record_age", operator, (p50, p90, p99), over)


def caught_up_within(limit: Any) -> Promise:
    """Promise that at any time the backlog would be processed within so long."""
    return Promise(kind="caught_up_within", limit=parse_duration(limit))


def error_share(operator: str, *, at_most: float, over: Any = "1m") -> Promise:
    """Promise that at most this share of the tuples of an operator are errors, over the period.

    Late records are no errors: see `late_share`.
    """
    limit = _share(at_most)
    return Promise(kind="error_share", operator=operator, limit=limit, over=parse_duration(over))


def late_share(operator: str, *, at_most: float, over: Any = "1m") -> Promise:
    """Promise that at most this share of the tuples of an operator come too late, over the period."""
    limit = _share(at_most)
    return Promise(kind="late_share", operator=operator, limit=limit, over=parse_duration(over))


def loss(*, at_most: float, over: Any = "1m") -> Promise:
    """Promise that at most this share of what came in was skipped, rejected, too late or dropped."""
    return Promise(kind="loss", limit=_share(at_most), over=parse_duration(over))


def throughput(operator: str, *, at_least: float, over: Any = "1m") -> Promise:
    """Promise that an operator takes at least so many tuples a second, over the period."""
    return Promise(kind="throughput", operator=operator, limit=at_least, over=parse_duration(over))


def _share(value: float) -> float:
    """Raises ValueError for what is no share."""
    if not 0 <= value <= 1:
        raise ValueError(
            f"`at_most` is {value}, but a share is a number from 0 to 1: write 0.001 for one in a thousand"
        )
    return value


def _quantile(kind: Kind, operator: str, limits: tuple[Any, Any, Any], over: Any) -> Promise:
    """The promise of the one quantile that was given, of p50, p90 and p99."""
    percents: tuple[Literal[50, 90, 99], ...] = (50, 90, 99)
    given = [(percent, one) for percent, one in zip(percents, limits, strict=True) if one is not None]
    if len(given) != 1:
        raise ValueError(
            f"give exactly one of p50, p90 and p99, not {len(given)}: promise each quantile by itself"
        )
    ((percent, limit),) = given
    limit, over = parse_duration(limit), parse_duration(over)
    return Promise(kind=kind, operator=operator, limit=limit, percent=percent, over=over)
