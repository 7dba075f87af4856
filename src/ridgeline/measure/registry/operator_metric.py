"""The row of one metric of a physical operator: its meaning, its value, and where it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, cast

from typing_extensions import TypedDict

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


@dataclass(frozen=True, kw_only=True)
class OperatorMetric:
    """One metric of a physical operator, or a text that belongs to it.

    The value is read in one of three ways:
    - `last`: a column of the operator's last committed window; 0 before the first
    - `count`: its sum over all windows since the start, kept when the plan changes
    - `read`: from all that is known of the operator

    Where it is shown:
    - `name`, `type`, `help`: a field of the REST answer about operators, and its description in OpenAPI
    - `exported`, `advice`, `aliases`: the metric of `/metrics` with the same value and `help`
    - `graph`: a line of that metric in the dashboard
    - `column`: a column of `ridgeline operators`
    """

    name: str
    type: Any
    help: str
    last: str = ""
    count: str = ""
    read: Callable[[OperatorMoment], Any] | None = None
    exported: str = ""
    advice: str = ""
    aliases: tuple[str, ...] = ()
    graph: Graph | None = None
    column: TerminalColumn | None = None

    @property
    def value(self) -> Callable[[OperatorMoment], Any]:
        """The function that reads its value for an operator."""
        if self.read is not None:
            return self.read
        column = self.last or self.count
        return lambda seen: seen.status.row[column].item()

    @cached_property
    def metric(self) -> Metric | None:
        """The metric of `/metrics`; None if it is none."""
        if not self.exported:
            return None
        return Metric(
            self.exported, self.help, self.advice, OPERATOR, self.aliases, read=partial(_fields, self.name)
        )


def _fields(name: str, scrape: Scrape) -> Iterator[tuple[Labels, Any]]:
    """A field of the answers about operators."""
    for row in scrape.overview["operators"]:
        yield scrape.labels_of[row["name"]], cast("Mapping[str, Any]", row)[name]


def answer_type(name: str, fields: Mapping[str, tuple[Any, str]]) -> Any:
    """The `TypedDict` of an answer whose fields are rows of a table. `fields`: type and description by name.

    Type checkers cannot see its fields; OpenAPI can.
    """
    make: Any = TypedDict
    return make(name, {field: Annotated[kind, text] for field, (kind, text) in fields.items()})
