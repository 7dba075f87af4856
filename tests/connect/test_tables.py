"""What all outputs into tables promise, one contract for each store: databases, files and lakes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from tests.connect.stores import (
    PRICE,
    PRICES,
    ROWS,
    SERVERS,
    STORES,
    SYMBOL,
    Everything,
    Price,
    Store,
    refused_rows,
    writing,
)

from ridgeline import RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.connect import Batch, Mark
from ridgeline.testing import END_WINDOW, ConnectorRow, ConnectorTarget, Faults, connector_checks, run_local


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: Store = request.param(request, tmp_path)
    return made


def write(output: Any, kind: Any, rows: Sequence[Any], *, partitions: int = 1, **given: Any) -> Any:
    attributes: dict[str, Any] = {"on_error": OnError.SKIP} if given.pop("skips", False) else {}
    return run_local(writing(output, kind, rows, partitions=partitions, **attributes), **given)


class Target(ConnectorTarget):
    def __init__(self, store: Store, key: str | None) -> None:
        self.store, self.key, self.upserts = store, key, key is not None

    def output(self) -> Any:
        return self.store.output(key=self.key)

    def rows(self) -> Sequence[Any]:
        try:
            return self.store.fetch(*ROWS.names)
        except self.store.absent:
            return []

    def poison(self) -> ConnectorRow | None:
        if not self.store.refuses:
            return None
        if not self.rows():
            self.store.make(*ROWS, check="value < 1000", key=self.key or "")
        return ConnectorRow(10**6, 99, "poison", 1001.0)

    def down(self) -> bool:
        if self.store.server is not None:
            self.store.server.kill()
        return self.store.server is not None

    def up(self) -> None:
        self.store.server.restart()


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "key"])
@pytest.mark.parametrize("kind", STORES)
def test_each_row_is_there_exactly_once(
    request: pytest.FixtureRequest, tmp_path: Path, kind: Callable[..., Store], key: str | None
) -> None:
    report = connector_checks(lambda: Target(kind(request, tmp_path), key))
    assert report.guarantee == "exactly once"


class Change(NamedTuple):
    id: int
    part: str
    op: str
    amount: int | None


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_last_change_of_each_key_counts(store: Store, partitions: int) -> None:
    random = Random(partitions)
    rows: list[Any] = []
    kept: dict[tuple[int, str], int] = {}
    for number in range(300):
        part, op = random.choice(["a", "A", "a ", "ä'"]), random.choice(["u", "u", "delete"])
        change = Change(random.randrange(12), part, op, number)
        rows.append(change)
        if op == "delete":
            kept.pop((change.id, part), None)
        else:
            kept[change.id, part] = number
        if random.random() < 0.03:
            rows.append(END_WINDOW)
    faults = Faults(seed=partitions, rate=0.2, kinds=("exception", "kill", "repeat", "restart"), quiet=True)
    write(store.output(key=("id", "part"), delete="op"), Change, rows, partitions=partitions, faults=faults)
    found = store.fetch("id", "part", "amount")
    assert {(one, part): amount for one, part, amount in found} == kept
    assert len(found) == len(kept)


UTC = dt.UTC
HOSTILE = [
    Everything(1, 1.5, "plain", True, b"\x00\xff'\\", Decimal("1.25"), parts=[1]),
    Everything(2, 0.0, "", False, b"", Decimal(0), dt.date(2026, 1, 1), parts=[]),
    Everything(3, 5e-324, "a \"b\" 'c' \\N \\% \\. ,;\n\r\t\x1a`%s NULL"),
    Everything(-(2**63), 1.7976931348623157e308, "\\", took=dt.timedelta(days=-1, microseconds=7)),
    Everything(2**63 - 1, 0.1, "Zürich 🌊 \x01 ", at=dt.datetime(2026, 1, 1, tzinfo=UTC)),
    Everything(4, None, "'); drop table x", day=dt.date(1, 1, 1)),
    Everything(5, None, "\\.", day=dt.date(9999, 12, 31), at=dt.datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    Everything(6, at=dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), parts=[2]),
]


@pytest.mark.parametrize("kind", SERVERS)
def test_values_of_all_types_arrive_as_they_are(
    request: pytest.FixtureRequest, tmp_path: Path, kind: Callable[..., Store]
) -> None:
    store, random = kind(request, tmp_path), Random(1)

    def text() -> str:
        letters = [[random.randrange(1, 128), random.randrange(0xE000, 0x10FFFF)] for _ in range(9)]
        return "".join(chr(random.choice(both)) for both in letters)

    def number() -> float:
        return random.uniform(-1, 1) * 10.0 ** random.randrange(-300, 300)

    drawn = [Everything(100 + one, number(), text(), data=random.randbytes(9)) for one in range(300)]
    rows = [*HOSTILE, *store.hostile, *drawn]
    write(store.output(), Everything, rows)
    found = {row[0]: row for row in store.fetch(*Everything._fields)}
    assert len(found) == len(rows)
    for row in rows:
        held = store.holds(row)
        assert repr(found[row.number][1]) == repr(held[1])  # -0.0 and NaN as they are
        assert found[row.number][2:] == held[2:]


DAY = pa.field("day", pa.date32(), nullable=False)


def test_a_table_that_does_not_fit_is_refused(
    request: pytest.FixtureRequest, store: Store, tmp_path: Path
) -> None:
    misfits: list[tuple[list[pa.Field], dict[str, Any], str]] = [
        ([SYMBOL], {}, "no column `price`"),
        ([SYMBOL, PRICE, DAY], {}, r"\bday\b"),
        ([], {"create": False}, "the table does not exist; create it"),
        ([], {"key": "sybmol"}, "key column `sybmol` is not in .*did you mean `symbol`"),
    ]
    if not store.converts:
        misfits.append(([SYMBOL, pa.field("price", pa.int64())], {}, "column `price` is"))
    if store.has_indexes:
        misfits.append(([SYMBOL, PRICE], {"key": "symbol"}, r"unique index|UNIQUE"))
    for fields, properties, what in misfits:
        one = type(store)(request, tmp_path)
        if fields:
            one.make(*fields)
        with pytest.raises(RidgelineError, match=what):
            write(one.output(**properties), Price, PRICES)


@pytest.mark.parametrize("key", [None, "symbol"])
def test_a_row_that_is_refused_is_named_or_left_out(store: Store, key: str | None, tmp_path: Path) -> None:
    if not store.refuses:
        pytest.skip("it has no constraints")
    store.make(SYMBOL, PRICE, check="price > 0", key="symbol")
    rows: list[Any] = [(f"s{number}", -1.0 if number % 7 == 3 else 1.0) for number in range(50)]
    rows.insert(20, END_WINDOW)
    with pytest.raises(RidgelineError, match=r"cannot write a row of window 0: .*s3.*`on_error` to `SKIP`"):
        write(store.output(key=key), Price, rows)
    assert store.fetch("symbol") == []
    write(store.output(key=key), Price, rows, skips=True, checkpoint=tmp_path / "checkpoint")
    found = {symbol for (symbol,) in store.fetch("symbol")}
    assert found == {f"s{number}" for number in range(50) if number % 7 != 3}
    assert len(refused_rows(tmp_path / "checkpoint")) == 7


def test_no_row_is_written_without_its_mark(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    if store.sink is None:
        pytest.skip("its marks are removed otherwise")
    real = store.sink.write

    def unmarked(self: Any, batches: Sequence[Batch], mark: Mark) -> None:
        if mark.window == 2:
            store.unmark()
        real(self, batches, mark)

    monkeypatch.setattr(store.sink, "write", unmarked)
    monkeypatch.setattr(store.sink, "most_bytes", 1)
    rows = [one for number in range(5) for one in ((f"s{number}", 1.0), END_WINDOW)]
    with pytest.raises(RidgelineError, match=r"its mark .* is gone"):
        write(store.output(), Price, rows)
    assert sorted(store.fetch("symbol")) == [("s0",), ("s1",)]
