"""The rules of an aggregate: its type, its parts of a batch, how two parts merge, and the result of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal

import pyarrow as pa

from ridgeline.operators._kinds import plain
from ridgeline.operators.aggregates.value import Aggregate, Part, Rows
from ridgeline.operators.key_value import is_number

TABLE: dict[str, type[Rules]] = {}
"""The classes of rules by the kinds of aggregates."""

_REMEDIES = {"ordered": "give one with an order", "plain": "give one of plain values"}
Bounds = Sequence[tuple[int, int]]
"""The places of the records of each window, first and behind the last; neither ever falls."""


class Rules:
    """The rules of one aggregate. A class of rules is that of the kinds it names: `kinds=("sum",)`.

    Parts are immutable values. They are written into state as they are.
    """

    of_window: ClassVar[bool] = False
    """True of what says something of the window, not of its records."""
    retract: ClassVar[Callable[[Any, Part, Part], Part] | None] = None
    """The part of the records of a whole without those of another, which are its oldest ones.

    None if parts cannot be taken away.
    """
    ordered: ClassVar[bool] = True
    """Parts depend on the order of the rows of a batch; False where rows may come in any."""
    sequential: ClassVar[bool] = False
    """Parts are merged from the oldest on; those in the middle must not be merged before."""
    combines: bool = False
    """Parts are small, and may be made before records are sent: then they are sent in their place."""
    takes: ClassVar[Literal["any", "ordered", "plain", "numbers"]] = "any"
    """Which columns it takes: "ordered" and "plain" ones have no lists, maps or structs.

    Of "plain" ones results have the type of their values, not dictionaries.
    """
    kind: Any = None
    """The type of results; None: that of the column."""
    nothing: Any = None
    """The aggregate of no value. Where it is not None results are never null."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.column = aggregate.column or ""
        self.option = aggregate.option
        self.highest = aggregate.kind.startswith("max")

    def __init_subclass__(cls, kinds: tuple[str, ...] = ()) -> None:
        for kind in kinds:
            TABLE[kind] = cls

    @classmethod
    def of(cls, kind: str, column: str | None = None, **options: Any) -> Aggregate:
        """An aggregate of one of the kinds of this class."""
        return Aggregate(kind, column, tuple(options.items()))

    def field(self, columns: pa.Schema) -> pa.Field:
        """The field of the results, without its name; for records with these columns.

        Raises ValueError that says what is wrong.
        """
        field = self.fitting(columns)
        return pa.field("", self.kind or field.type, nullable=self.nothing is None and field.nullable)

    def parts(self, rows: Rows) -> list[Part]:
        """The part of each group; None of one without a value."""
        raise NotImplementedError

    def merge(self, one: Part, other: Part) -> Part:
        """The part of the records of both, neither of them None; those of `one` came before."""
        raise NotImplementedError

    def merged(self, one: Part, other: Part) -> Part:
        """As `merge`, of parts that may be None."""
        if one is None or other is None:
            return other if one is None else one
        return self.merge(one, other)

    def merged_all(self, ones: Sequence[Part], others: Sequence[Part]) -> list[Part]:
        """As `merged`, of many."""
        if None in ones or None in others:
            return list(map(self.merged, ones, others))
        return list(map(self.merge, ones, others))

    def result(self, part: Part) -> Any:
        """The aggregate of a part that is whole, and not None."""
        return part

    def rolled(self, parts: Sequence[Part], bounds: Bounds) -> list[Part] | None:
        """The part of each slice of parts, `(begin, end)` each; None if there is no quick way."""
        return None

    def results(self, parts: list[Part]) -> list[Any]:
        """The aggregates of parts, None included."""
        return [self.nothing if part is None else self.result(part) for part in parts]

    def field_of(self, columns: pa.Schema, name: str | None = None) -> pa.Field:
        """The field of the column. Raises ValueError if there is none of this name."""
        name = self.column if name is None else name
        if isinstance(name, Aggregate):
            what = f"its column is the aggregate `{name.kind}`, and an aggregate takes a column"
            raise ValueError(f"{what}; aggregate the results of the first one in a step behind it")  # noqa: TRY004  as for other columns
        if name not in columns.names:
            raise ValueError(f"there is no column `{name}`; the stream has {', '.join(columns.names)}")
        return columns.field(name)

    def fitting(self, columns: pa.Schema) -> pa.Field:
        """The field of the column. Raises ValueError if it is none that the aggregate takes."""
        if self.takes == "numbers":
            return self.number_of(columns)
        field = self.field_of(columns)
        if self.takes != "any" and pa.types.is_nested(field.type):
            raise self.refused(field, _REMEDIES[self.takes])
        return field.with_type(plain(field.type)) if self.takes == "plain" else field

    def refused(self, field: pa.Field, what: str) -> ValueError:
        """The error of a column whose type has no such aggregate."""
        return ValueError(
            f"column `{field.name}` is {field.type}, which has no {self.aggregate.kind}; {what}"
        )

    def number_of(self, columns: pa.Schema, name: str | None = None) -> pa.Field:
        """The field of a column of numbers. Raises ValueError if it is none."""
        field = self.field_of(columns, name)
        if not is_number(field.type):
            raise self.refused(field, "give one of numbers")
        return field


def placed(count: int, found: Iterable[tuple[int, Part]]) -> list[Part]:
    """The parts of groups with their numbers, as `Rules.parts` gives them: of so many groups."""
    parts: list[Part] = [None] * count
    for group, part in found:
        parts[group] = part
    return parts


def list_field(kind: pa.DataType, *, nullable: bool = False) -> pa.Field:
    """The field of lists of values that are not null."""
    return pa.field("", pa.list_(pa.field("item", kind, nullable=False)), nullable=nullable)


def rules_of(aggregate: Aggregate) -> Rules:
    """The rules of an aggregate. Raises ValueError for a kind that does not exist."""
    if aggregate.kind.startswith("approximate"):
        import ridgeline.operators.aggregates.sketches  # noqa: F401  registers them
    known = TABLE.get(aggregate.kind)
    if known is None:
        raise ValueError(f"there is no aggregate `{aggregate.kind}`; there are {', '.join(sorted(TABLE))}")
    return known(aggregate)
