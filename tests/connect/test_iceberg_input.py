"""Iceberg tables as inputs: which rows are read, whatever else happens to the table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.types import LongType

from ridgeline import Application, RidgelineError
from ridgeline.operators.lake import IcebergInput, IcebergOutput
from ridgeline.testing import CollectorSink, Faults, ListInput, LocalRun, run_local
from ridgeline.testing.services import Moto

UTC = dt.UTC


class Row(NamedTuple):
    id: int
    part: str | None
    day: dt.date | None


KINDS = pa.schema([("id", pa.int64()), ("part", pa.string()), ("day", pa.date32())])


class Lake(NamedTuple):
    catalog: Catalog
    properties: dict[str, Any]

    def input(self, kind: Any = Row, **options: Any) -> IcebergInput:
        return IcebergInput("shop.rows", kind, catalog="shop", properties=self.properties, **options)

    def make(self, by: list[str] | None = None) -> None:
        with (
            self.catalog.create_table_transaction("shop.rows", KINDS) as making,
            making.update_spec() as spec,
        ):
            for name in by or []:
                spec.add_identity(name)

    @property
    def table(self) -> Any:
        return self.catalog.load_table("shop.rows")

    def write(self, new: list[Row]) -> None:
        self.table.append(pa.Table.from_pylist([one._asdict() for one in new], KINDS))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    folder = tmp_path / "lake"
    folder.mkdir()
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    with load_catalog("shop", **properties) as catalog:
        catalog.create_namespace("shop")
        yield Lake(catalog, properties)


def rows(first: int, count: int, random: Random | None = None) -> list[Row]:
    chosen = random or Random(first)
    parts, days = ["CH", "a b/c%d", "it's é", None], [dt.date(2026, 1, 1), dt.date(1, 1, 1), None]
    return [Row(number, chosen.choice(parts), chosen.choice(days)) for number in range(first, first + count)]


def collect(source: Any, kind: Any = Row, partitions: int = 1, **options: Any) -> tuple[list[Any], LocalRun]:
    app = Application("lake")
    read = app.add_operator("source", source, partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(kind))
    app.add_stream("rows", read.output, sink.input)
    run = run_local(app, **options)
    return run.collected("sink"), run


def ids(found: list[Row]) -> list[int]:
    return sorted(row.id for row in found)


@pytest.mark.parametrize(("partitions", "by"), [(1, []), (2, ["part", "day"]), (3, ["part"])])
def test_each_row_once_with_kills(lake: Lake, partitions: int, by: list[str]) -> None:
    random = Random(partitions)
    every: list[Row] = []
    lake.make(by)
    for _ in range(5):
        new = rows(len(every), random.randrange(1, 300), random)
        lake.write(new)
        every += new
    first = lake.table.snapshots()[0].snapshot_id
    for begin in ("earliest", {"version": first}):
        source = lake.input(until="end", begin=begin, window_records=300)
        faults = Faults(
            seed=partitions, rate=0.2, kinds=["exception", "kill", "repeat", "restart"], quiet=True
        )
        found, _ = collect(source, partitions=partitions, faults=faults)
        assert sorted(found, key=lambda row: row.id) == every


def test_it_continues_where_it_stopped(lake: Lake, tmp_path: Path) -> None:
    every: list[Row] = []
    seen: list[int] = []
    lake.make()
    for round_ in range(4):
        for _ in range(round_):
            new = rows(len(every), 50)
            lake.write(new)
            every += new
        source = lake.input(window_records=60, discover_every=0.01)
        found, _ = collect(source, checkpoint=tmp_path / "checkpoint", windows=4 + 2 * round_)
        seen += ids(found)
    assert sorted(seen) == [row.id for row in every]


def test_where_it_begins(lake: Lake) -> None:
    lake.make()
    for number in range(4):
        lake.write(rows(number * 10, 10))
    snapshots = lake.table.snapshots()
    at = dt.datetime.fromtimestamp(snapshots[2].timestamp_ms / 1000, UTC)
    begins: list[tuple[Any, int]] = [("latest", 40), ({"version": snapshots[2].snapshot_id}, 20), (at, 20)]
    for begin, first in begins:
        found, _ = collect(lake.input(until="end", begin=begin))
        assert [row.id for row in found] == list(range(first, 40)), begin
    with pytest.raises(RidgelineError, match="its main branch has no snapshot 9; its newest one is"):
        collect(lake.input(until="end", begin={"version": 9}))


def test_without_an_end_it_cannot_be_collected(lake: Lake) -> None:
    app = Application("lake")
    with pytest.raises(RidgelineError, match="input `endless` never ends"):
        app.read("endless", lake.input()).collect()


def test_changed_rows_are_refused_or_passed_over(lake: Lake) -> None:
    lake.make()
    lake.write(rows(0, 10))
    first = {"version": lake.table.snapshots()[0].snapshot_id}
    lake.table.delete("id < 3")
    lake.write(rows(10, 10))
    found, _ = collect(lake.input(until="end"))
    assert ids(found) == list(range(3, 20))
    with pytest.raises(RidgelineError, match=r"has removed or rewritten rows .*set `pass_over_changes`"):
        collect(lake.input(until="end", begin=first))
    found, run = collect(lake.input(until="end", begin=first, pass_over_changes=True))
    assert ids(found) == list(range(20))
    assert any("passed over" in str(event) for event in run.events)


def test_snapshots_that_have_expired_are_named(lake: Lake, tmp_path: Path) -> None:
    lake.make()
    for number in range(3):
        lake.write(rows(number * 10, 10))
    checkpoint = tmp_path / "checkpoint"
    collect(
        lake.input(begin={"version": lake.table.snapshots()[0].snapshot_id}, window_records=5),
        windows=2,
        checkpoint=checkpoint,
    )
    for number in range(3, 5):
        lake.write(rows(number * 10, 10))
    table = lake.table
    for snapshot in table.snapshots()[:-1]:
        table.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    with pytest.raises(RidgelineError, match="cannot be read: "):
        collect(lake.input(until="end"), checkpoint=checkpoint)
    found, _ = collect(lake.input(until="end"))
    assert ids(found) == list(range(50))


def test_a_time_before_the_kept_snapshots_is_refused(lake: Lake) -> None:
    at = dt.datetime.now(UTC) - dt.timedelta(hours=1)
    lake.make()
    for number in range(3):
        lake.write(rows(number * 10, 10))
    found, _ = collect(lake.input(until="end", begin=at))
    assert ids(found) == list(range(30))
    table = lake.table
    table.maintenance.expire_snapshots().by_id(table.snapshots()[0].snapshot_id).commit()
    with pytest.raises(RidgelineError, match="have expired, and may be as new as `begin`; begin with a late"):
        collect(lake.input(until="end", begin=at))


def test_columns_that_were_added_or_renamed(lake: Lake) -> None:
    lake.make()
    lake.write(rows(0, 2))
    with lake.table.update_schema() as update:
        update.add_column("more", LongType())
    new = {"id": [2], "part": [None], "day": [None], "more": [5]}
    lake.table.append(pa.table(new, KINDS.append(pa.field("more", pa.int64()))))

    class More(NamedTuple):
        id: int
        more: int | None

    found, _ = collect(lake.input(More, until="end"), More)
    assert sorted(found) == [More(0, None), More(1, None), More(2, 5)]
    with lake.table.update_schema() as update:
        update.rename_column("more", "much")
    with pytest.raises(RidgelineError, match="column `much` was renamed, or removed and added again"):
        collect(lake.input(More, until="end"), More)


def test_what_an_output_writes_is_read_while_it_does(lake: Lake) -> None:
    every = rows(0, 200)
    app = Application("writes")
    source = app.add_operator("source", ListInput(Row, every))
    made = IcebergOutput("shop.rows", catalog="shop", properties=lake.properties, partition_by="part")
    out = app.add_operator("out", made, partitions=2)
    app.add_stream("rows", source.output, out.input)
    run_local(app)
    found, _ = collect(lake.input(until="end"), partitions=2)
    assert sorted(found, key=lambda row: row.id) == every


def test_a_table_that_is_not_there_is_waited_for(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ridgeline.connect._enumerating._FIRST_ANSWER_SECONDS", 0.5)
    found, run = collect(lake.input(), windows=2)
    assert not found
    assert any("there is no table yet" in str(event) for event in run.events)


def test_tables_in_s3(moto: Moto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2-very-secret"
    monkeypatch.setenv("LAKE_SECRET", secret)
    properties: dict[str, Any] = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"s3://{moto.bucket()}/lake",
        "s3.endpoint": moto.endpoint,
        "s3.access-key-id": "ridgeline",
        "s3.secret-access-key": "env:LAKE_SECRET",
        "s3.region": "us-east-1",
    }
    every = rows(0, 60)
    app = Application("writes")
    source = app.add_operator("source", ListInput(Row, every))
    made = IcebergOutput("shop.rows", catalog="shop", properties=properties, partition_by="part")
    out = app.add_operator("out", made, partitions=2)
    app.add_stream("rows", source.output, out.input)
    written = run_local(app)
    read = IcebergInput("shop.rows", Row, catalog="shop", properties=properties, until="end")
    found, run = collect(read, partitions=2)
    assert sorted(found, key=lambda row: row.id) == every
    for text in (repr(written.events), str(written.plan), repr(run.events), str(run.plan)):
        assert secret not in text
