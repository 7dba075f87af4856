"""Tuples of classes of many libraries: what goes in comes out, equal and of the same types."""

import dataclasses
import enum
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, NamedTuple, NewType, TypedDict

import attrs
import numpy as np
import polars as pl
import pyarrow as pa
import pydantic
import pytest
import typing_extensions

from ridgeline import (
    Application,
    InputPort,
    KeyedState,
    Operator,
    OutputPort,
    Schema,
    SchemaError,
    stable_hash,
)
from ridgeline.testing import CollectorSink, ListInput, run_local


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Shape(enum.Enum):
    ROUND = (1, 2)
    FLAT = None


class Tone(enum.StrEnum):
    DARK = "dark"


Account = NewType("Account", int)


class Inner(pydantic.BaseModel):
    colour: Colour
    sizes: list[int]


@attrs.define
class Place:
    city: str
    level: Level | None = None


class Note(TypedDict):
    text: str
    at: datetime


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    ident: uuid.UUID
    account: Account
    colour: Colour | None
    inner: Inner
    places: list[Place]
    amount: Decimal
    kind: Literal["buy", "sell"]
    _private: int = 5


@attrs.frozen
class Frozen:
    ident: uuid.UUID
    shape: Shape
    model: Inner | None
    by_tone: dict[Tone, int]


class Record(TypedDict):
    ident: uuid.UUID
    level: Level
    note: Note
    maybe: Literal[1, 2] | None


@dataclasses.dataclass
class Mixed:
    place: Place
    record: Note
    tone: Tone
    size: np.int32
    share: np.float32
    when: datetime


class Flat(NamedTuple):
    colour: Colour
    ident: uuid.UUID
    level: Level
    flags: list[Colour]


IDS = [uuid.UUID(int=n * 77) for n in range(6)]
AT = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2))).astimezone(UTC)


def models() -> Iterator[Model]:
    for n, ident in enumerate(IDS):
        inner = Inner(colour=Colour.BLUE, sizes=[n, n + 1])
        places = [Place("Bern", Level.LOW), Place("Oslo")][: n % 3]
        yield Model(
            ident=ident,
            account=Account(n),
            colour=None if n % 2 else Colour.RED,
            inner=inner,
            places=places,
            amount=Decimal("1.500000000000000000"),
            kind="buy",
        )


TUPLES: dict[Any, list[Any]] = {
    Model: list(models()),
    Place: [Place("Bern", Level.LOW), Place("Oslo", None)],
    Frozen: [
        Frozen(IDS[1], Shape.ROUND, Inner(colour=Colour.RED, sizes=[]), {Tone.DARK: 1}),
        Frozen(IDS[2], Shape.FLAT, None, {}),
    ],
    Record: [
        {"ident": IDS[1], "level": Level.LOW, "note": {"text": "a", "at": AT}, "maybe": 2},
        {"ident": IDS[2], "level": Level.HIGH, "note": {"text": "b", "at": AT}, "maybe": None},
    ],
    Mixed: [Mixed(Place("Bern"), {"text": "", "at": AT}, Tone.DARK, np.int32(5), np.float32(0.1), AT)],
    Flat: [Flat(Colour.RED, IDS[1], Level.HIGH, [Colour.RED]), Flat(Colour.BLUE, IDS[2], Level.LOW, [])],
}


def types_of(value: Any) -> Any:
    """A value with the classes of all within."""
    if isinstance(value, dict):
        return {key: types_of(one) for key, one in value.items()}, type(value)
    if isinstance(value, list):
        return [types_of(one) for one in value]
    names = [one for one in getattr(type(value), "__annotations__", ()) if not one.startswith("_")]
    return type(value), [types_of(getattr(value, name)) for name in names]


@pytest.mark.parametrize("kind", TUPLES)
def test_tuples_come_back_equal(kind: Any) -> None:
    schema, rows = Schema(kind), TUPLES[kind]
    found = schema.decode(schema.encode(rows))
    assert found == rows
    assert types_of(found) == types_of(rows)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (Flat("red", IDS[0], Level.LOW, []), "`colour` must be string; got 'red' .*is no Colour"),
        (Flat(Colour.RED, str(IDS[0]), Level.LOW, []), "`ident` .*is no UUID"),
        (Flat(Colour.RED, IDS[0], 1, []), "`level` .*is no Level"),
        (Flat(Colour.RED, IDS[0], Level.LOW, ["x"]), "`flags` .*is no Colour"),
        (Flat(None, IDS[0], Level.LOW, []), "`colour` .*null|None"),
    ],
)
def test_other_values_are_refused(row: Flat, text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        Schema(Flat).encode([row])
    with pytest.raises(SchemaError, match=r"`kind`|'hold' is none of 'buy', 'sell'"):
        Schema(Model).encode([TUPLES[Model][0].model_copy(update={"kind": "hold"})])


class Missing(TypedDict):
    text: typing_extensions.NotRequired[str]


class Two(NamedTuple):
    value: Literal["a", 1]


class Odd(NamedTuple):
    value: set[int]


class Bare:
    value: int


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Missing, r"field `text` of `Missing` may be missing.*write `text: ... \| None`"),
        (Two, "`Two.value`: .*values of several kinds; give texts only"),
        (Odd, "`Odd.value` has type set.*use list"),
        (Bare, "Bare.* cannot be a schema; give a NamedTuple, a dataclass, an attrs class, a pydantic model"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(kind: Any, text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        Schema(kind)


def test_a_schema_of_polars() -> None:
    columns = pl.Schema(
        {"a": pl.Int32, "s": pl.String, "l": pl.List(pl.String), "t": pl.Datetime("us", "UTC")}
    )
    expected = pa.schema(
        [
            ("a", pa.int32()),
            ("s", pa.string()),
            ("l", pa.list_(pa.string())),
            ("t", pa.timestamp("us", "UTC")),
        ]
    )
    assert Schema(columns).arrow == expected
    app = Application("polars")
    rows = [{"a": 1, "s": "x", "l": ["y"], "t": AT}]
    app.read("in", ListInput(columns, rows)).filter("kept", "a > 0").write("sink", CollectorSink())
    assert run_local(app).collected("sink") == rows


class ByColour(Operator):
    input = InputPort(Flat, key=("colour", "ident"))
    output = OutputPort(Flat)
    seen = KeyedState(int)

    @input.process
    def count(self, row: Flat) -> None:
        key = (row.colour.value, str(row.ident))
        self.seen[key] = self.seen.get(key, 0) + 1
        if self.seen[key] == 3:
            self.output.emit(row)


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_they_can_be_keys(partitions: int) -> None:
    rows = [Flat(colour, ident, Level.LOW, []) for ident in IDS for colour in Colour] * 3
    app = Application("keys")
    kept = app.read("in", ListInput(Flat, rows)).filter("kept", "level = 1", partitions=2)
    kept.process("by_colour", ByColour(), partitions=partitions).write("sink", CollectorSink(Flat))
    assert len(run_local(app).collected("sink")) == 12
    assert stable_hash(Colour.RED) == stable_hash("red")
    assert stable_hash(IDS[1]) == stable_hash(str(IDS[1]))
