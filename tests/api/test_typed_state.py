"""Values of a state that are not of its declared type are refused where they are set."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pytest

from ridgeline import KeyedState, ListState, StateError

T = TypeVar("T")


class Pair(NamedTuple):
    left: int
    right: int


def keyed(kind: Any) -> Any:
    cell = KeyedState(kind).cell()
    cell.begin(0)
    return cell


REFUSED: list[tuple[Any, Any, str]] = [
    (int, "5", "`int`; got '5', a `str`"),
    (int, 5.0, "`int`; got 5.0, a `float`"),
    (int, None, "`int`; got None, a `NoneType`"),
    (int, np.float64(1), "`int`; got"),
    (int, np.timedelta64(5, "ns"), "`int`; got"),
    (bool, 1, "`bool`; got 1, a `int`"),
    (str, b"x", "`str`; got b'x', a `bytes`"),
    (tuple, [1], "`tuple`; got [1], a `list`"),
    (Pair, (1, 2), "`Pair`; got (1, 2), a `tuple`"),
    (list[int], (1,), "`list[int]`; got (1,), a `tuple`"),
    (int | None, "x", "`int | None`; got 'x', a `str`"),
    (Literal["a"], ["a"], "got ['a'], a `list`"),
    (datetime, date(2026, 1, 1), "`datetime`; got datetime.date(2026, 1, 1), a `date`"),
]
TAKEN: list[tuple[Any, Any, Any]] = [
    (int, True, True),
    (int, 2**80, 2**80),
    (int, np.int32(7), 7),
    (bool, np.bool_(True), True),
    (float, 3, 3),
    (np.float32, np.float32(0.5), np.float32(0.5)),
    (date, datetime(2026, 1, 1), datetime(2026, 1, 1)),  # noqa: DTZ001
    (tuple, Pair(1, 2), Pair(1, 2)),
    (list[int], ["x"], ["x"]),
    (dict[str, int] | None, None, None),
    (Any, object, object),
    (T, "x", "x"),
    (Literal[1, 2], np.int64(2), 2),
    (Literal["a"] | None, None, None),
]


@pytest.mark.parametrize(("kind", "value", "text"), REFUSED)
def test_a_value_of_another_type_is_refused_when_it_is_set(kind: Any, value: Any, text: str) -> None:
    cell = keyed(kind)
    for put in (
        lambda: cell.__setitem__("k", value),
        lambda: cell.update({"k": value}),
        lambda: cell.setdefault("k", value),
        lambda: cell.put_many(["k"], [value]),
    ):
        with pytest.raises(StateError, match=re.escape(text)) as caught:
            put()
        assert "for the key 'k'; convert it, or declare another type" in str(caught.value)
    assert dict(cell) == {}
    assert cell.changes() is None


@pytest.mark.parametrize(("kind", "value", "held"), TAKEN)
def test_a_value_of_the_type_is_taken(kind: Any, value: Any, held: Any) -> None:
    cell = keyed(kind)
    cell["a"] = value
    cell.put_many(["b", "c"], [value, value])
    assert list(cell.values()) == [held] * 3
    assert {type(value) for value in cell.values()} == {type(held)}


def test_arrays_of_another_type_are_refused() -> None:
    cell = keyed(int)
    with pytest.raises(
        StateError,
        match=r"the state holds values of type `int`; got 1\.5, a `float`, for the key 1; convert it",
    ):
        cell.put_many(np.array([1, 2]), np.array([1.5, 2.5]))
    with pytest.raises(StateError, match="got None"):
        cell.put_many(pa.array([1, 2]), pa.array([1, None]))
    cell.put_many(pa.array([1, 2]), pa.array([1, 2], pa.uint8()))
    assert dict(cell) == {1: 1, 2: 2}


def test_items_of_a_list_state_are_checked_at_the_end_of_the_window() -> None:
    cell = ListState(float).cell()
    cell.begin(0)
    cell += [1, np.float32(2), 3.5]
    assert cell.changes() == (0, [1, 2.0, 3.5])
    cell.append("4")
    with pytest.raises(
        StateError,
        match=r"^the state holds values of type `float`; got '4', a `str`; "
        r"convert it, or declare another type$",
    ):
        cell.changes()
