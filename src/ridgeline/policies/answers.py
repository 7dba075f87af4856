"""Answers of listeners and policies: changes of the operator that it listens to, or of any."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ridgeline.api.partitioner import Load, Partitioner
from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures
from ridgeline.plan import edits as plan_edits
from ridgeline.plan.edits import Edit, edit_of, edit_to_json
from ridgeline.plan.spec.values import write_partitioner

ASKED, APPLIED, REFUSED, HELPED, MISSED = "ASKED", "APPLIED", "REFUSED", "HELPED", "MISSED"
"""The states of a decision."""
FAILED = "FAILED"
"""In place of a decision: a policy or listener has raised."""


@dataclass(frozen=True, slots=True)
class Repartition:
    """Give the operator so many partitions. `note`: why, for the log.

    `partitioner`: divides them from now on. Its `define_partitions` gets the `load` as the listener saw it.
    """

    partitions: int
    note: str = ""
    partitioner: Partitioner | None = None


@dataclass(frozen=True, slots=True)
class SetProperty:
    """Give a property of the operator a value. `note`: why, for the log."""

    property: str
    value: Any
    note: str = ""


@dataclass(frozen=True, slots=True)
class SetAttribute:
    """Give an attribute of the operator a value. `note`: why, for the log."""

    attribute: str
    value: Any
    note: str = ""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected effect of a decision: `figure` goes from `before` to `after`.

    `operator` "": of the application. `figure` is one of `FIGURES`; raises ValueError for another one. It is
    looked at over `seconds` seconds, so long after the change has effect. It has come true if at least half
    of the way was made.
    """

    figure: str
    before: float
    after: float
    operator: str = ""
    seconds: float = 10.0

    def __post_init__(self) -> None:
        if self.figure not in FIGURES:
            raise ValueError(f"there is no figure `{self.figure}`; there are {', '.join(FIGURES)}")

    def __str__(self) -> str:
        of = f" of `{self.operator}`" if self.operator else ""
        what = self.figure.removesuffix("_seconds").replace("_", " ")
        return f"{what}{of} from {shown(self.figure, self.before)} to {shown(self.figure, self.after)}"

    def found(self, figures: ApplicationFigures) -> float | None:
        """The figure now; None if it is not known. Raises KeyError if there is no such operator or figure."""
        return FIGURES[self.figure](figures.for_seconds(self.seconds), self.operator)

    def helped(self, found: float) -> bool:
        """True if at least half of the way was made."""
        return (found - self.before) * (self.after - self.before) >= (self.after - self.before) ** 2 / 2


def shown(figure: str, value: float | None) -> str:
    """A figure's value for people."""
    if value is None:
        return "unknown"
    if figure.endswith("_seconds"):
        return f"{1000 * value:,.1f} ms" if abs(value) < 1 else f"{value:,.2f} s"
    if figure == "imbalance":
        return f"{value:.2f} times the mean"
    return f"{100 * value:.0f} %" if figure in {"utilization", "critical_path_share"} else f"{value:,.0f}"


def _latency(figures: ApplicationFigures, operator: str, quantile: str) -> float | None:
    spread = figures.operators[operator].latency if operator else figures.window_latency
    return getattr(spread, quantile) if spread.count else None


def _rate(operator: OperatorFigures) -> float:
    return operator.tuples_out_per_second if operator.is_input else operator.tuples_in_per_second


FIGURES: Mapping[str, Any] = {
    "latency_p50_seconds": lambda figures, name: _latency(figures, name, "p50_seconds"),
    "latency_p99_seconds": lambda figures, name: _latency(figures, name, "p99_seconds"),
    "record_age_p99_seconds": lambda figures, name: figures.operators[name].record_age.p99_seconds or None,
    "tuples_per_second": lambda figures, name: _rate(figures.operators[name]),
    "tuples_per_partition": lambda figures, name: (
        _rate(figures.operators[name]) / figures.operators[name].partitions
    ),
    "true_rate": lambda figures, name: figures.operators[name].true_rate,
    "utilization": lambda figures, name: figures.operators[name].utilization,
    "imbalance": lambda figures, name: figures.operators[name].imbalance,
    "critical_path_share": lambda figures, name: figures.operators[name].critical_path_share,
    "late_seconds": lambda figures, _name: figures.late_seconds,
    "backlog": lambda figures, _name: (
        sum(one.backlog or 0.0 for one in figures.sources)
        if any(one.backlog is not None for one in figures.sources)
        else None
    ),
}
"""The figures that a decision may promise to change, each of an operator or ("") of the application."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Changes that belong together: all at one window, or none. `note`: why, in a sentence.

    `expects` is compared with what came of it. `undo`: edits that take it back if nothing of it came true.
    """

    edits: tuple[Edit, ...]
    note: str
    expects: tuple[Expectation, ...] = ()
    undo: tuple[Edit, ...] = ()


_MOST_ANSWERS = 100
"""An answer has at most so many parts."""
Answer = Repartition | SetProperty | SetAttribute | Decision


def decisions_of(answer: object, own: OperatorFigures | None = None) -> list[Decision]:
    """The decisions in an answer; `own`: the figures that the listener of an operator has seen.

    Raises TypeError for what is no answer, ChangeError for an edit with a field of another type, and what
    writing a partitioner raises.
    """
    if answer is None:
        return []
    if isinstance(answer, Iterable) and not isinstance(answer, str | bytes | Mapping):
        several = list(islice(answer, _MOST_ANSWERS + 1))
        if len(several) > _MOST_ANSWERS:
            raise TypeError(f"the answer has more than {_MOST_ANSWERS} parts; give fewer at a time")
        return [decision for one in several for decision in decisions_of(one, own)]
    operator = "" if own is None else own.name
    match answer:
        case Decision():
            _check_edits("edits", answer.edits)
            _check_edits("undo", answer.undo)
            return [answer] if answer.edits else []
        case Repartition(count, note, partitioner) if own is not None:
            written = None if partitioner is None else write_partitioner(_with_load(partitioner, own))
            return [Decision((plan_edits.Repartition(operator, count, written),), note)]
        case SetProperty(name, value, note) if operator:
            return [Decision((plan_edits.SetProperty(operator, name, value),), note)]
        case SetAttribute(name, value, note) if operator:
            return [Decision((plan_edits.SetAttribute(operator, name, value),), note)]
    wanted = "`Repartition`, `SetProperty`, `SetAttribute` or `Decision`" if operator else "`Decision`"
    raise TypeError(f"the answer is a `{type(answer).__name__}`; give {wanted}, several of them, or None")


def _with_load(partitioner: Partitioner, own: OperatorFigures) -> Partitioner:
    """The same partitioner, which knows how the tuples of its operator are spread."""
    found, tuples = copy.copy(partitioner), [one.tuples_in for one in own.by_partition]
    shares = tuple(one / sum(tuples) for one in tuples) if sum(tuples) else ()
    found.load = Load(shares, () if own.keys is None else tuple(own.keys.loads.tolist()))
    return found


def _check_edits(what: str, edits: object) -> None:
    """Raise TypeError for what are no edits: the thread of windows must never see them."""
    if not isinstance(edits, tuple):
        raise TypeError(f"`{what}` of the decision is a `{type(edits).__name__}`; give a tuple of edits")
    for one in edits:
        if not isinstance(one, Edit):
            raise TypeError(
                f"`{what}` of the decision has a `{type(one).__name__}`; see `ridgeline.plan.edits`"
            )
        edit_of(edit_to_json(one))
