"""Delta tables as outputs: what is in them, whatever happens."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import TableNotFoundError

from ridgeline import Application, RidgelineError
from ridgeline.connect import Batch, Mark, PartitionedOutput
from ridgeline.operators.lake import DeltaOutput
from ridgeline.operators.lake.delta_output import DeltaSink
from ridgeline.testing import (
    END_WINDOW,
    ConnectorRow,
    ConnectorTarget,
    Faults,
    ListInput,
    connector_checks,
    run_local,
)
from support.services import SeaweedFS
from support.testing.shares import share

UTC = dt.UTC
ROWS = pa.schema([("id", pa.int64()), ("key", pa.int64()), ("text", pa.string()), ("value", pa.float64())])


def application(output: Any, kind: Any, rows: Sequence[Any], **attributes: Any) -> Application:
    app = Application("sales")
    source = app.add_operator("source", ListInput(kind, rows))
    out = app.add_operator("out", output, **attributes)
    app.add_stream("rows", source.output, out.input)
    return app


def fetch(path: Path | str, **options: Any) -> list[dict[str, Any]]:
    """The rows of a table, as polars reads it."""
    return pl.read_delta(str(path), **options).to_dicts()


class DeltaRows(ConnectorTarget):
    count = 0

    def __init__(self, folder: Path, key: str | None) -> None:
        DeltaRows.count += 1
        self.path, self.key = folder / f"table{DeltaRows.count}", key
        self.upserts = key is not None

    def output(self) -> PartitionedOutput:
        return DeltaOutput(self.path, key=self.key)

    def rows(self) -> Sequence[Any]:
        try:
            table = DeltaTable(self.path).to_pyarrow_table()
        except TableNotFoundError:
            return []
        return [tuple(row.values()) for row in table.to_pylist()]

    def poison(self) -> ConnectorRow | None:
        if not self.rows():
            write_deltalake(self.path, ROWS.empty_table())
            DeltaTable(self.path).alter.add_constraint({"small": "value < 1000"})
        return ConnectorRow(10**6, 99, "poison", 1001.0)


# Values -----------------------------------------------------------------------------------------------------


ARROW = pa.schema(
    [
        ("u8", pa.uint8()),
        ("u16", pa.uint16()),
        ("u32", pa.uint32()),
        ("u64", pa.uint64()),
        ("f16", pa.float16()),
        ("ns", pa.timestamp("ns", "Europe/Berlin")),
        ("local", pa.timestamp("s")),
        ("time", pa.time64("us")),
        ("kind", pa.dictionary(pa.int32(), pa.string())),
        ("fixed", pa.binary(2)),
        ("long", pa.large_list(pa.large_string())),
        ("price", pa.decimal128(5, 2)),
        ("took", pa.duration("s")),
    ]
)


def test_types_that_delta_does_not_have_are_converted(tmp_path: Path) -> None:
    at = dt.datetime(2026, 7, 1, 12, tzinfo=UTC)
    row = (255, 65535, 2**32 - 1, 2**63 - 1, 1.5, at, at.replace(tzinfo=None), dt.time(1, 2, 3, 4), "a")
    row = (*row, b"ab", ["x"], Decimal("1.25"), dt.timedelta(seconds=3))
    run_local(application(DeltaOutput(tmp_path / "table"), ARROW, [row]))
    [found] = DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
    assert found.pop("time") == "01:02:03.000004"
    assert found.pop("ns") == at
    assert found.pop("took") == 3_000_000
    assert list(found.values()) == [*row[:5], row[6], *row[8:12]]
    app = application(DeltaOutput(tmp_path / "other"), ARROW, [(*row[:3], 2**63, *row[4:])])
    with pytest.raises(RidgelineError, match=r"column `u64` \(uint64\) has a value that the table cannot"):
        run_local(app)


# Replacing --------------------------------------------------------------------------------------------------


class Total(NamedTuple):
    country: str | None
    day: dt.date | None
    at: dt.datetime | None
    price: Decimal
    number: int


@pytest.mark.parametrize(
    ("partitions", "by"),
    share(2, [1, 2], [("country",), ("day",), ("at",), ("country", "day", "at"), ("number",)]),
)
def test_rows_of_a_window_replace_their_partitions(
    tmp_path: Path, by: tuple[str, ...], partitions: int
) -> None:
    random = Random(len(by) + partitions)
    at = dt.datetime(2026, 1, 1, 12, 30, 1, 5, tzinfo=UTC)
    rows: list[Any] = []
    kept: dict[Any, list[Total]] = {}
    for _ in range(25):
        window = [
            Total(
                random.choice(["CH", "it's", "a b/c%d=e", "é\\", None]),
                random.choice([dt.date(2026, 1, 1), dt.date(1, 1, 1), None]),
                random.choice([at, at + dt.timedelta(microseconds=1), None]),
                random.choice([Decimal("1.25"), Decimal(-3)]),
                random.randrange(3),
            )
            for _ in range(random.randrange(1, 4))
        ]
        replaced: dict[Any, list[Total]] = {}
        for row in window:
            replaced.setdefault(tuple(getattr(row, name) for name in by), []).append(row)
        kept.update(replaced)
        rows += [*window, END_WINDOW]
    output = DeltaOutput(tmp_path / "table", partition_by=by, overwrite=True)
    faults = Faults(seed=1, rate=0.1, kinds=("exception", "kill", "repeat", "restart"), quiet=True)
    run_local(application(output, Total, rows, partitions=partitions), faults=faults)
    found = DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
    made = [tuple(row[name] for name in Total._fields) for row in found]
    wanted = [tuple(row) for part in kept.values() for row in part]
    assert sorted(made, key=hash) == sorted(wanted, key=hash)
    assert DeltaTable(tmp_path / "table").metadata().partition_columns == list(by)


# Tables that are there --------------------------------------------------------------------------------------


class Price(NamedTuple):
    symbol: str
    price: float


PRICES = [("IBM", 12.5), ("SAP", 101.25), END_WINDOW, ("IBM", 13.0)]
SYMBOL = pa.field("symbol", pa.string())


@pytest.mark.parametrize(
    ("fields", "properties", "what"),
    [
        ([SYMBOL, ("price", pa.float32())], {}, "column `price` is float in the table and double in the str"),
        ([SYMBOL, ("price", pa.float64())], {"partition_by": "symbol"}, "partitioned by no column, `part"),
        ([], {"partition_by": "sybmol"}, "no column `sybmol`, which `partition_by` names; did you mean `sy"),
        ([], {"partition_by": "price"}, "column `price` of `partition_by` is double; take texts"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    tmp_path: Path, fields: list[Any], properties: dict[str, Any], what: str
) -> None:
    if fields:
        DeltaTable.create(tmp_path / "prices", schema=Schema.from_arrow(pa.schema(fields)))
    output = DeltaOutput(tmp_path / "prices", **properties)
    with pytest.raises(RidgelineError, match=what):
        run_local(application(output, Price, PRICES))


def test_columns_that_the_stream_lacks_are_null(tmp_path: Path) -> None:
    fields = [("day", pa.date32()), ("price", pa.float64()), ("symbol", pa.string())]
    DeltaTable.create(tmp_path / "table", schema=Schema.from_arrow(pa.schema(fields)), partition_by=["day"])
    run_local(application(DeltaOutput(tmp_path / "table"), Price, PRICES[:1]))
    assert fetch(tmp_path / "table") == [{"day": None, "price": 12.5, "symbol": "IBM"}]


@pytest.mark.parametrize("name", ["a b", "a,b", "a=b", "x{"])
def test_a_name_that_delta_does_not_have_is_refused(tmp_path: Path, name: str) -> None:
    app = application(DeltaOutput(tmp_path / "table"), pa.schema([(name, pa.int64())]), [(1,)])
    with pytest.raises(RidgelineError, match="is no name of a column in Delta; give it another name"):
        run_local(app)


# Others at work ---------------------------------------------------------------------------------------------


def test_a_table_that_is_removed_meanwhile_ends_the_run(tmp_path: Path) -> None:
    import shutil

    class Removed(DeltaSink):
        most_bytes = 1

        def write(self, batches: Sequence[Batch], mark: Mark) -> None:
            if mark.window == 2:
                shutil.rmtree(tmp_path / "table")
            super().write(batches, mark)

    class RemovedOutput(DeltaOutput):
        def sink(self) -> DeltaSink:
            made: Any = super().sink()
            return Removed(made._store, made.target)

    rows = [one for number in range(5) for one in ((f"s{number}", 1.0), END_WINDOW)]
    with pytest.raises(RidgelineError, match="cannot write to Delta table") as raised:
        run_local(application(RemovedOutput(tmp_path / "table"), Price, rows))
    print(raised.value)
    assert not (tmp_path / "table" / "_delta_log").exists()


def drop_marks(path: Path) -> None:
    """Write a checkpoint without transaction identifiers, as one who has a retention for them does."""
    table = DeltaTable(path)
    write_deltalake(table, pa.table({"symbol": ["other"], "price": [1.0]}), mode="append")
    table.create_checkpoint()
    [checkpoint] = (path / "_delta_log").glob("*.checkpoint.parquet")
    actions = pq.read_table(checkpoint)
    pq.write_table(actions.filter(pc.is_null(actions.column("txn"))), checkpoint)
    for commit in sorted((path / "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()


@pytest.mark.parametrize("restarts", [False, True])
def test_no_row_is_written_without_its_mark(tmp_path: Path, restarts: bool) -> None:
    path, checkpoint = tmp_path / "table", tmp_path / "checkpoint"

    class Unmarked(DeltaSink):
        most_bytes = 1

        def write(self, batches: Sequence[Batch], mark: Mark) -> None:
            if mark.window == 2:
                drop_marks(path)
            super().write(batches, mark)

    class UnmarkedOutput(DeltaOutput):
        def sink(self) -> DeltaSink:
            made: Any = super().sink()
            return Unmarked(made._store, made.target)

    rows = [one for number in range(5) for one in ((f"s{number}", 1.0), END_WINDOW)]
    if restarts:
        run_local(application(DeltaOutput(path), Price, rows), checkpoint=checkpoint, windows=2)
    with pytest.raises(RidgelineError, match=r"its mark .* is gone"):
        run_local(application(UnmarkedOutput(path), Price, rows), checkpoint=checkpoint)
    assert sorted(row["symbol"] for row in fetch(path)) == ["other", "s0", "s1"]


SECRET = SeaweedFS.SECRET


def store(endpoint: str) -> dict[str, Any]:
    return {
        "aws_endpoint_url": endpoint,
        "aws_access_key_id": "ridgeline",
        "aws_secret_access_key": "env:LAKE_SECRET",
        "aws_region": "us-east-1",
    }


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LAKE_SECRET", SECRET)
    return SECRET


class StoredRows(DeltaRows):
    """A table in an S3 store that is killed, cut off or paused."""

    def __init__(self, service: SeaweedFS, key: str | None, way: str = "kill") -> None:
        super().__init__(Path(), key)
        self.service, self.way = service, way
        self.uri = f"s3://{service.bucket()}/lake/rows"

    def output(self) -> PartitionedOutput:
        options = {**store(self.service.endpoint), "timeout": "3s", "retry_timeout": "3s"}
        return DeltaOutput(self.uri, key=self.key, storage=options)

    def rows(self) -> Sequence[Any]:
        options = {**store(self.service.endpoint), "aws_secret_access_key": SECRET, "aws_allow_http": "true"}
        try:
            table = DeltaTable(self.uri, storage_options=options).to_pyarrow_table()
        except TableNotFoundError:
            return []
        return [tuple(row.values()) for row in table.to_pylist()]

    def poison(self) -> ConnectorRow | None:
        return None

    def down(self) -> bool:
        getattr(self.service, self.way)()
        return True

    def up(self) -> None:
        {"kill": self.service.restart, "cut": self.service.mend, "pause": self.service.resume}[self.way]()


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "key"])
def test_delta_on_s3_is_exactly_once(seaweedfs: SeaweedFS, secret: str, key: str | None) -> None:
    only = ["3 partitions", "write", "commit", "two drivers", "slow", "older"]
    report = connector_checks(lambda: StoredRows(seaweedfs, key), only=only)
    assert report.guarantee == "exactly once"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["kill", "cut", "pause"])
def test_an_s3_store_that_goes_away_is_waited_for(seaweedfs: SeaweedFS, secret: str, way: str) -> None:
    only = ["2 partitions", "down", "write: in"]
    report = connector_checks(lambda: StoredRows(seaweedfs, None, way), only=only)
    assert report.guarantee == "exactly once"


def test_no_secret_is_shown(seaweedfs: SeaweedFS, secret: str) -> None:
    uri = f"s3://{seaweedfs.bucket()}/prices"
    for given in ("env:LAKE_SECRET", secret):
        storage = {**store(seaweedfs.endpoint), "aws_secret_access_key": given}
        run = run_local(application(DeltaOutput(uri, storage=storage), Price, PRICES))
        assert secret not in repr(run.events)
        assert secret not in str(run.plan)
    options = {**storage, "aws_allow_http": "true"}
    assert len(fetch(uri, storage_options=options)) == 6
    for wrong, what in (
        ({"aws_endpoint_url": "http://127.0.0.1:1"}, "nothing is lost"),
        ({"aws_secret_access_key": "env:NO_LAKE"}, "environment variable `NO_LAKE` is not set"),
    ):
        output = DeltaOutput(uri, storage={**storage, **wrong}, drain_seconds=0.2)
        with pytest.raises(RidgelineError, match=what) as raised:
            run_local(application(output, Price, PRICES))
        assert secret not in str(raised.value)
    for other in ("s3://there-is-no-such-bucket/prices",):
        with pytest.raises(RidgelineError, match="check `path` and `storage`") as raised:
            run_local(application(DeltaOutput(other, storage=storage), Price, PRICES))
        assert secret not in str(raised.value)


def test_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(RidgelineError, match=r"pip install 'ridgeline\[lake\]'"):
        run_local(application(DeltaOutput(tmp_path / "table"), Price, PRICES))


@pytest.mark.parametrize(
    ("properties", "what"),
    [
        ({"overwrite": True}, "needs `partition_by`"),
        ({"overwrite": True, "partition_by": "symbol", "key": "symbol"}, "cannot be given with `key`"),
        ({"storage": {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}}, "two writers could overwrite"),
        ({"delete": "symbol"}, "needs `key`"),
    ],
)
def test_properties_that_exclude_each_other(tmp_path: Path, properties: dict[str, Any], what: str) -> None:
    with pytest.raises(RidgelineError, match=what):
        run_local(application(DeltaOutput(tmp_path / "table", **properties), Price, PRICES))
