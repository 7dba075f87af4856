"""Lake tables as inputs: which rows are read, whatever else happens to the table."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ridgeline import Application, RidgelineError
from ridgeline.api.clock import SystemClock
from ridgeline.connect import SourceRange
from ridgeline.operators.lake import DeltaInput
from ridgeline.operators.lake.delta_log import DeltaLog, file_system
from ridgeline.operators.lake.lake_reader import LakeReader
from ridgeline.operators.lake.lake_source import LakeSource
from ridgeline.operators.lake.storage import Store
from ridgeline.testing import CollectorSink, Faults, LocalRun, run_local
from ridgeline.testing.services import Moto, SeaweedFS
from support.testing.shares import share

UTC = dt.UTC


class Row(NamedTuple):
    id: int
    part: str | None
    at: dt.datetime | None


KINDS = pa.schema([("id", pa.int64()), ("part", pa.string()), ("at", pa.timestamp("us", "UTC"))])
AT = dt.datetime(2026, 1, 1, 12, 0, 0, 7, tzinfo=UTC)


def rows(first: int, count: int, random: Random | None = None) -> list[Row]:
    chosen = random or Random(first)
    parts = ["CH", "a b/c%d", "it's é", None]
    return [
        Row(number, chosen.choice(parts), chosen.choice([AT, AT + dt.timedelta(days=1), None]))
        for number in range(first, first + count)
    ]


def write(path: Path, new: list[Row], **options: Any) -> None:
    write_deltalake(path, pa.Table.from_pylist([one._asdict() for one in new], KINDS), **options)


def collect(source: Any, kind: Any = Row, partitions: int = 1, **options: Any) -> tuple[list[Any], LocalRun]:
    app = Application("lake")
    read = app.add_operator("source", source, partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(kind))
    app.add_stream("rows", read.output, sink.input)
    run = run_local(app, **options)
    return run.collected("sink"), run


def ids(found: list[Row]) -> list[int]:
    return sorted(row.id for row in found)


@pytest.mark.parametrize(("by", "partitions"), share(2, [[], ["part", "at"]], [1, 2, 3, 5]))
def test_each_row_once_with_kills(tmp_path: Path, partitions: int, by: list[str]) -> None:
    random = Random(partitions)
    every: list[Row] = []
    for number in range(12):
        new = rows(len(every), random.randrange(1, 400), random)
        write(tmp_path, new, mode="append", partition_by=by)
        every += new
        if number == 6:
            DeltaTable(tmp_path).optimize.compact()
    for begin in ("earliest", {"version": 0}):
        source = DeltaInput(tmp_path, Row, until="end", begin=begin, window_records=700)
        faults = Faults(
            seed=partitions, rate=0.2, kinds=["exception", "kill", "repeat", "restart"], quiet=True
        )
        found, _ = collect(source, partitions=partitions, faults=faults)
        assert sorted(found, key=lambda row: row.id) == every


def test_versions_are_read_in_their_order(tmp_path: Path) -> None:
    for number in range(25):
        write(tmp_path, rows(number * 3, 3), mode="append")
    for begin in ("earliest", {"version": 0}):
        for records in (1, 2000, 10**6):
            found, _ = collect(DeltaInput(tmp_path, Row, until="end", begin=begin, window_records=records))
            read = [row.id for row in found]
            assert (read if begin != "earliest" else sorted(read)) == list(range(75)), (begin, records)


def test_it_continues_where_it_stopped(tmp_path: Path) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    every: list[Row] = []
    seen: list[int] = []
    for round_ in range(6):
        for _ in range(round_):
            new = rows(len(every), 50)
            write(table, new, mode="append", partition_by=["part"])
            every += new
        if not round_:
            write(table, [], partition_by=["part"])
        if round_ == 3:
            DeltaTable(table).optimize.compact()
        source = DeltaInput(table, Row, window_records=60, discover_every=0.01)
        found, _ = collect(source, checkpoint=checkpoint, windows=4 + 2 * round_)
        seen += ids(found)
    assert sorted(seen) == [row.id for row in every]


def test_where_it_begins(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, rows(number * 10, 10), mode="append")
    history = {one["version"]: one["timestamp"] for one in DeltaTable(tmp_path).history()}
    at = dt.datetime.fromtimestamp(history[2] / 1000, UTC)
    for begin, first in (("latest", 40), ({"version": 2}, 20), ({"version": 4}, 40), (at, 20)):
        found, _ = collect(DeltaInput(tmp_path, Row, until="end", begin=begin))
        if begin == at and history[1] == history[2]:
            continue
        assert ids(found) == list(range(first, 40)), begin
    with pytest.raises(RidgelineError, match="it has no version 9; its newest one is 3"):
        collect(DeltaInput(tmp_path, Row, until="end", begin={"version": 9}))


def test_changed_rows_are_refused_or_passed_over(tmp_path: Path) -> None:
    write(tmp_path, rows(0, 10), mode="append")
    DeltaTable(tmp_path).delete("id < 3")
    write(tmp_path, rows(10, 10), mode="append")
    DeltaTable(tmp_path).update({"part": "'x'"}, predicate="id = 11")
    write(tmp_path, rows(20, 10), mode="append")
    found, _ = collect(DeltaInput(tmp_path, Row, until="end"))
    assert ids(found) == list(range(3, 30))
    with pytest.raises(RidgelineError, match=r"version 1 of .* has removed or rewritten rows \(DELETE\), wh"):
        collect(DeltaInput(tmp_path, Row, until="end", begin={"version": 0}))
    source = DeltaInput(tmp_path, Row, until="end", begin={"version": 0}, pass_over_changes=True)
    found, run = collect(source)
    assert ids(found) == list(range(30))
    said = [str(event) for event in run.events if "passed over" in str(event)]
    assert len([text for text in said if "(UPDATE)" in text]) == 1


def test_files_that_were_vacuumed_are_named(tmp_path: Path) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    for number in range(5):
        write(table, rows(number * 10, 10), mode="append")
    collect(DeltaInput(table, Row, window_records=10), checkpoint=checkpoint, windows=1)
    DeltaTable(table).optimize.compact()
    DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(RidgelineError, match="is gone: it was vacuumed before it was read"):
        collect(DeltaInput(table, Row, until="end"), checkpoint=checkpoint)
    found, _ = collect(DeltaInput(table, Row, until="end"))
    assert ids(found) == list(range(50))


def test_commits_that_were_cleaned_up_are_named(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path, rows(number * 10, 10), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    for number in (0, 1, 2):
        (tmp_path / "_delta_log" / f"{number:020}.json").unlink()
    with pytest.raises(RidgelineError, match=r"version 1 of .* cannot be read: its commit was cleaned up"):
        collect(DeltaInput(tmp_path, Row, until="end", begin={"version": 1}))
    found, _ = collect(DeltaInput(tmp_path, Row, until="end"))
    assert ids(found) == list(range(50))


def test_a_time_before_the_kept_log_is_refused(tmp_path: Path) -> None:
    at = dt.datetime.now(UTC) - dt.timedelta(hours=1)
    for number in range(5):
        write(tmp_path, rows(number * 10, 10), mode="append")
    found, _ = collect(DeltaInput(tmp_path, Row, until="end", begin=at))
    assert ids(found) == list(range(50))
    DeltaTable(tmp_path).create_checkpoint()
    for number in (0, 1, 2):
        (tmp_path / "_delta_log" / f"{number:020}.json").unlink()
    with pytest.raises(RidgelineError, match="commits before version 3 were cleaned up, and may be as new"):
        collect(DeltaInput(tmp_path, Row, until="end", begin=at))


@pytest.mark.parametrize("new", [10, 3])
def test_a_log_that_is_cleaned_up_or_replaced_meanwhile_ends_the_run(tmp_path: Path, new: int) -> None:
    table = tmp_path / "table"
    for number in range(5):
        write(table, rows(number * 10, 10), mode="append")

    class Changed(LakeSource):
        def partitions(self) -> Sequence[str]:
            if not self._given and self._point is not None and self._point.version == 4:
                if new < 5:
                    shutil.rmtree(table)
                for number in range(5 if new > 5 else 0, new):
                    write(table, rows(number * 10, 10), mode="append")
                DeltaTable(table).create_checkpoint()
                for path in sorted((table / "_delta_log").glob("*.json"))[:-1]:
                    path.unlink()
            return super().partitions()

    class ChangedInput(DeltaInput):
        def source(self) -> LakeSource:
            return Changed(DeltaLog(Store(str(table), {}), passes=False), self.begin, None)

    what = "5 of .*: its commit was cleaned up" if new > 5 else "4 of .*: the table is at version 2, so it"
    with pytest.raises(RidgelineError, match=rf"version {what}"):
        collect(ChangedInput(table, Row, begin={"version": 0}, discover_every=0.01), windows=20)


def test_partition_columns_have_their_types(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("day", pa.date32()),
            ("number", pa.int32()),
            ("price", pa.decimal128(9, 2)),
            ("yes", pa.bool_()),
            ("local", pa.timestamp("us")),
        ]
    )
    row = {"day": dt.date(1, 2, 3), "number": -7, "price": Decimal("1.50"), "yes": True}
    row["local"] = AT.replace(tzinfo=None)
    by = list(row)
    table = pa.Table.from_pylist([{**row, "rest": 1}], schema.append(pa.field("rest", pa.int64())))
    write_deltalake(tmp_path, table, partition_by=by)
    kind = schema.append(pa.field("value", pa.float64()))
    for begin in ("earliest", {"version": 0}):
        found, _ = collect(DeltaInput(tmp_path, kind, until="end", begin=begin), kind)
        assert found == [{**row, "value": None}], begin


def test_columns_that_older_files_lack(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    write_deltalake(tmp_path, pa.table({"id": [2], "more": [5]}), mode="append", schema_mode="merge")

    class More(NamedTuple):
        id: int
        more: int | None

    class Must(NamedTuple):
        id: int
        more: int

    found, _ = collect(DeltaInput(tmp_path, More, until="end"), More)
    assert sorted(found) == [More(1, None), More(2, 5)]
    with pytest.raises(RidgelineError, match="has no column `more`: it is older than the column"):
        collect(DeltaInput(tmp_path, Must, until="end"), Must)


def test_a_table_that_is_not_there_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ridgeline.connect._enumerating._FIRST_ANSWER_SECONDS", 0.5)
    found, run = collect(DeltaInput(tmp_path / "none", Row), windows=2)
    assert not found
    assert any("there is no table yet" in str(event) for event in run.events)


SECRET = SeaweedFS.SECRET


def stored(service: Moto | SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]]:
    """A table of 200 rows in an S3 store; the options to read it."""
    monkeypatch.setenv("LAKE_SECRET", SECRET)
    options = {"aws_endpoint_url": service.endpoint, "aws_access_key_id": "ridgeline"}
    options |= {"aws_region": "us-east-1", "timeout": "3s", "retry_timeout": "3s"}
    uri = f"s3://{service.bucket()}/table"
    known = {**options, "aws_secret_access_key": SECRET, "aws_allow_http": "true"}
    for number in range(4):
        new = pa.Table.from_pylist([one._asdict() for one in rows(number * 50, 50)], KINDS)
        write_deltalake(uri, new, mode="append", partition_by=["part"], storage_options=known)
    return uri, {**options, "aws_secret_access_key": "env:LAKE_SECRET"}


def test_a_table_in_s3(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, options = stored(moto, monkeypatch)
    faults = Faults(seed=1, rate=0.1, kinds=["exception", "kill", "repeat", "restart"], quiet=True)
    source = DeltaInput(uri, Row, until="end", window_records=60, storage=options)
    found, run = collect(source, partitions=2, faults=faults)
    assert ids(found) == list(range(200))
    assert SECRET not in repr(run.events)
    assert SECRET not in str(run.plan)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["kill", "cut"])
@pytest.mark.parametrize("half", ["source", "reader"])
def test_an_s3_store_that_goes_away_is_waited_for(
    seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch, way: str, half: str
) -> None:
    uri, options = stored(seaweedfs, monkeypatch)
    struck: list[threading.Timer] = []

    def strike() -> None:
        if not struck:
            back = {"kill": seaweedfs.restart, "cut": seaweedfs.mend}[way]
            struck.append(threading.Timer(4.0, back))
            getattr(seaweedfs, way)()
            struck[0].start()

    class Struck(LakeReader):
        def read(self, part: SourceRange) -> Iterator[pa.RecordBatch]:
            strike()
            yield from super().read(part)

    class StruckInput(DeltaInput):
        def reader(self) -> LakeReader:
            store = Store(uri, options)
            return Struck(lambda: file_system(store)) if half == "reader" else super().reader()

    if half == "source":
        strike()
    source = StruckInput(uri, Row, storage=options, until="end", window_records=60)
    found, _ = collect(source, partitions=2)
    struck[0].join()
    assert ids(found) == list(range(200))


def test_a_table_that_begins_to_map_columns_ends_the_run(tmp_path: Path) -> None:
    """Its files have columns under other names from then on: a column that may be null would be so."""
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    log = tmp_path / "_delta_log"
    actions = map(json.loads, (log / f"{0:020}.json").read_text().splitlines())
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    metadata["configuration"] = {"delta.columnMapping.mode": "name"}
    changed = [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": metadata}]

    class More(NamedTuple):
        id: int
        more: int | None

    def until(run: Any) -> bool:
        if run.tuples_out("read") and not (log / f"{1:020}.json").exists():
            (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, changed)))
        return False

    app = Application("maps", window="20ms")
    app.read("read", DeltaInput(tmp_path, More, discover_every=0.0)).write("sink", CollectorSink(More))
    with pytest.raises(RidgelineError, match="it maps columns to other names"):
        run_local(app, clock=SystemClock(), until=until)
