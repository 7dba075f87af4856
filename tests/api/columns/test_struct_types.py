"""Records come out of a batch as they went in: no constructor runs again, nothing that they hold is lost."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import InitVar, dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import SchemaError
from ridgeline.engine.exchange import block


@dataclass
class Changed:
    sku: str

    def __post_init__(self) -> None:
        self.sku = "SKU-" + self.sku


@dataclass(frozen=True)
class Frozen:
    a: int
    b: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", 2 * self.a)


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    a: int
    b: str = "x"


@dataclass
class WithInitVar:
    a: int
    scale: InitVar[int]
    b: int = field(init=False)

    def __post_init__(self, scale: int) -> None:
        self.b = self.a * scale


@dataclass
class Child(Changed):
    size: int = 1


@dataclass
class Outer:
    part: Changed
    parts: list[Frozen]
    named: dict[str, WithInitVar]


@pytest.mark.parametrize(
    "row",
    [
        Changed("1"),
        Frozen(2),
        FrozenSlots(1),
        WithInitVar(2, 5),
        Child("a", 2),
        Outer(Changed("x"), [Frozen(1)], {"k": WithInitVar(1, 2)}),
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
    row = Changed("x")
    other = copy.copy(row)
    row.note = "n"  # type: ignore[attr-defined]
    with pytest.raises(SchemaError, match=r"has `note`, which is no field; declare it `field\(init=False\)`"):
        Schema(Changed).encode([other, row])
    with pytest.raises(SchemaError, match="has `note`"):
        Schema(Outer).encode([Outer(row, [], {})])


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
