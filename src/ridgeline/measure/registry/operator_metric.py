"""What a field of the answer about operators says of itself: how it is read, and where it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ridgeline.measure.metric import OPERATOR, Labels, Metric
from ridgeline.measure.moment import OperatorMoment

if TYPE_CHECKING:
    from ridgeline.measure.registry.scrape import Scrape


@dataclass(frozen=True, slots=True)
class TerminalColumn:
    """A column in the terminal, whose values `show` writes.

    In a narrow terminal `operators` leaves out columns with the least `keep` first. `warns`: a value other
    than 0 stands out. `unless_zero`: shown only if the value of a row is not 0.
    """

    title: str
    show: Callable[[Any], str]
    keep: int = 0
    warns: bool = False
    unless_zero: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """A line in the Grafana dashboard.

    `panel`: title of the panel; one that the dashboard does not have is added to the row `Operators`.
    `legend`: text of the line; `{}` stands for the operator.
    """

    panel: str
    legend: str = "{}"


@dataclass(frozen=True, slots=True)
class Read:
    """The value of a field, from all that is known of the operator."""

    of: Callable[[OperatorMoment], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of reports as a field: of the last committed window, or `summed` over all since the start.

    Sums are kept when the plan changes.
    """

    name: str
    summed: bool = False

    @property
    def of(self) -> Callable[[OperatorMoment], Any]:
        """As that of `Read`."""
        return lambda seen: seen.status.row[self.name].item()


class Exported(NamedTuple):
    """The metric of `/metrics` with a field's value and text."""

    name: str
    advice: str
    aliases: tuple[str, ...] = ()


class OperatorMetric:
    """A field of the REST answer about operators: one metric of a physical operator, or a text.

    All of it is in the field's annotation: its type, what it means, how it is read, and where else it is
    shown. It is read by `Read` or from a `Column`; without either it is the field of the same name in
    `/latency`. `Exported` makes a metric of it, `Graph` a line of the dashboard, `TerminalColumn` a column of
    `ridgeline operators`.
    """

    def __init__(self, name: str, hint: Any) -> None:
        self.name = name
        self.help: str = hint.__metadata__[0]
        said = {type(one): one for one in hint.__metadata__[1:]}
        self.source: Column | None = said.get(Column)
        self.graph: Graph | None = said.get(Graph)
        self.column: TerminalColumn | None = said.get(TerminalColumn)
        read = self.source or said.get(Read, Read(lambda seen: seen.latency.get(name)))
        self.value: Callable[[OperatorMoment], Any] = read.of
        """Its value for an operator."""
        self._exported: Exported | None = said.get(Exported)

    @cached_property
    def metric(self) -> Metric | None:
        """The metric of `/metrics`; None if it is none."""
        if self._exported is None:
            return None
        name, advice, aliases = self._exported
        return Metric(name, self.help, advice, OPERATOR, aliases, read=partial(_fields, self.name))


def _fields(name: str, scrape: Scrape) -> Iterator[tuple[Labels, Any]]:
    """A field of the answers about operators."""
    for row in scrape.overview["operators"]:
        yield scrape.labels_of[row["name"]], cast("Mapping[str, Any]", row)[name]
