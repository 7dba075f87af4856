"""Records come out of a batch as they went in: no constructor runs again, nothing that they hold is lost."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa
import pytest

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import SchemaError
from ridgeline.engine.exchange import block

T = TypeVar("T")


@dataclass
class Changed:
    sku: str

    def __post_init__(self) -> None:
        self.sku = "SKU-" + self.sku


@dataclass
class Strict:
    cents: int

    def __post_init__(self) -> None:
        if self.cents < 0:
            raise ValueError("negative")


@dataclass(frozen=True)
class Frozen:
    a: int
    b: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", 2 * self.a)


@dataclass(slots=True)
class Slots:
    a: int
    b: int = field(init=False, default=3)


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    a: int
    b: str = "x"


@dataclass(kw_only=True)
class Keywords:
    b: int
    a: str = "a"


@dataclass
class WithInitVar:
    a: int
    scale: InitVar[int]
    b: int = field(init=False)

    def __post_init__(self, scale: int) -> None:
        self.b = self.a * scale


@dataclass(init=False)
class OwnInit:
    a: int

    def __init__(self) -> None:
        self.a = 7


@dataclass
class Child(Changed):
    size: int = 1


@dataclass
class Outer:
    part: Changed
    parts: list[Frozen]
    named: dict[str, WithInitVar]


@dataclass
class Cached:
    a: int

    @cached_property
    def double(self) -> int:
        return 2 * self.a


@dataclass
class Generically(Generic[T]):
    a: int


@dataclass
class Listed:
    items: list[int] = field(default_factory=list)


def set_later(row: Any, **values: Any) -> Any:
    for name, value in values.items():
        setattr(row, name, value)
    return row


def cached() -> Cached:
    made = Cached(2)
    assert made.double == 4
    return made


@pytest.mark.parametrize(
    "row",
    [
        Changed("1"),
        set_later(Strict(1), cents=-1),
        Frozen(2),
        set_later(Slots(1), b=5),
        Slots(1),
        FrozenSlots(1),
        Keywords(b=1),
        WithInitVar(2, 5),
        set_later(WithInitVar(2, 5), b=-1),
        OwnInit(),
        Child("a", 2),
        Outer(Changed("x"), [Frozen(1)], {"k": WithInitVar(1, 2)}),
        cached(),
        Generically[int](1),
        Listed([1]),
    ],
    ids=lambda row: type(row).__name__,
)
def test_a_dataclass_comes_out_as_a_copy_of_what_was_emitted(row: Any) -> None:
    schema = Schema(type(row))
    [back] = schema.decode(schema.encode([row]))
    assert back == copy.copy(row)
    assert type(back) is type(row)
    assert all(getattr(back, one.name) == getattr(row, one.name) for one in dataclasses.fields(row))


def test_an_attribute_that_is_no_field_is_refused() -> None:
    for row in (Changed("1"), Generically(1)):
        other = copy.copy(row)
        set_later(row, note="n")
        match = r"has `note`, which is no field; declare it `field\(init=False\)`"
        with pytest.raises(SchemaError, match=match):
            Schema(type(row)).encode([other, row])
    outer = Outer(set_later(Changed("x"), note="n"), [], {})
    with pytest.raises(SchemaError, match="has `note`"):
        Schema(Outer).encode([outer])


def test_records_without_fields_are_counted() -> None:
    @dataclass
    class Empty:
        pass

    schema = Schema(Empty)
    tuples = Tuples.of_rows(schema, [Empty()] * 3)
    assert block.decode(schema, block.encode(tuples), None).rows == [Empty()] * 3
    assert Schema(pa.schema([])).decode(Schema(pa.schema([])).encode([{}, {}])) == [{}, {}]


def test_a_record_of_other_fields_is_refused() -> None:
    class Swapped(NamedTuple):
        b: int
        a: int

    class Pair(NamedTuple):
        a: int
        b: int

    with pytest.raises(SchemaError, match="the fields"):
        Schema(Pair).encode([Swapped(1, 2)])
    with pytest.raises(SchemaError, match="the fields"):
        Schema(Changed).encode([Child("a", 2)])
    assert Schema(Pair).decode(Schema(Pair).encode([(1, 2)])) == [Pair(1, 2)]
