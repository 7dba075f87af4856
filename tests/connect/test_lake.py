"""Delta and Iceberg tables as outputs: what is in them, whatever happens."""

from __future__ import annotations

import datetime as dt
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import TableNotFoundError
from tests.connect.stores import (
    PRICE,
    PRICES,
    SYMBOL,
    InDelta,
    InIceberg,
    Price,
    Store,
    check_that_no_secret_is_shown,
    writing,
)

from ridgeline import RidgelineError
from ridgeline.connect import Batch, Mark, PartitionedOutput
from ridgeline.connectors.lake import DeltaOutput, IcebergOutput
from ridgeline.connectors.lake.delta_output import DeltaSink
from ridgeline.testing import END_WINDOW, ConnectorTarget, connector_checks, run_local
from support.services import SeaweedFS

UTC = dt.UTC


def fetch(path: Path | str, **options: Any) -> list[dict[str, Any]]:
    """The rows of a table, as polars reads it."""
    return pl.read_delta(str(path), **options).to_dicts()


DELTA_TYPES = pa.schema(
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
    run_local(writing(DeltaOutput(tmp_path / "table"), DELTA_TYPES, [row]))
    [found] = DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
    assert found.pop("time") == "01:02:03.000004"
    assert found.pop("ns") == at
    assert found.pop("took") == 3_000_000
    assert list(found.values()) == [*row[:5], row[6], *row[8:12]]
    app = writing(DeltaOutput(tmp_path / "other"), DELTA_TYPES, [(*row[:3], 2**63, *row[4:])])
    with pytest.raises(RidgelineError, match=r"column `u64` \(uint64\) has a value that the table cannot"):
        run_local(app)


ICEBERG_TYPES = pa.schema(
    [
        ("u8", pa.uint8()),
        ("u16", pa.uint16()),
        ("u32", pa.uint32()),
        ("i8", pa.int8()),
        ("f16", pa.float16()),
        ("at", pa.timestamp("ns", "Europe/Berlin")),
        ("local", pa.timestamp("s")),
        ("time", pa.time64("ns")),
        ("kind", pa.dictionary(pa.int32(), pa.string())),
        ("price", pa.decimal128(38, 18)),
        ("parts", pa.list_(pa.int64())),
        ("inner", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])),
        ("pairs", pa.map_(pa.string(), pa.float64())),
        ("nothing", pa.null()),
    ]
)


def test_iceberg_takes_values_of_many_types(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    at = dt.datetime(2026, 7, 1, 12, 0, 0, 7, tzinfo=UTC)
    full = (255, 65535, 2**32 - 1, -128, 1.5, at, at.replace(tzinfo=None, microsecond=0), dt.time(1, 2, 3, 4))
    rows = [(*full, "a", None, [1, None], {"x": None, "y": ["é"]}, [("k", 1.5)], None), (None,) * 14]
    store = InIceberg(request, tmp_path)
    run_local(writing(store.output(), ICEBERG_TYPES, rows))
    assert store.fetch(*ICEBERG_TYPES.names) == rows


def test_iceberg_takes_lists_of_structs_that_are_not_null(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    schema = pa.schema([("parts", pa.list_(pa.struct([("x", pa.int64())])))])
    rows = [([{"x": 1}, {"x": None}, None],), ([],)]
    store = InIceberg(request, tmp_path)
    run_local(writing(store.output(), schema, rows))
    assert store.fetch("parts") == rows
    with pytest.raises(RidgelineError, match="list of structs that is null"):
        run_local(writing(store.output(), schema, [*rows, (None,)]))


class Total(NamedTuple):
    country: str | None
    at: dt.datetime | None
    price: Decimal


@pytest.mark.parametrize("kind", [InDelta, InIceberg])
def test_a_table_is_made_with_its_partitions(
    request: pytest.FixtureRequest, tmp_path: Path, kind: type[Store]
) -> None:
    store, at = kind(request, tmp_path), dt.datetime(2026, 1, 1, 12, 30, 1, 5, tzinfo=UTC)
    rows = [
        Total(country, at, Decimal("-1.25"))
        for country, at in product(["CH", "it's", "a b/c%d=e", None], [at, None])
    ]
    run_local(writing(store.output(partition_by=("country", "at")), Total, rows))
    assert Counter(store.fetch(*Total._fields)) == Counter(map(tuple, rows))
    if kind is InDelta:
        assert DeltaTable(store.place).metadata().partition_columns == ["country", "at"]


@pytest.mark.parametrize(
    ("kind", "fields", "properties", "what"),
    [
        (InDelta, [SYMBOL, pa.field("price", pa.float32())], {}, "`price` is float in the table and double"),
        (InDelta, [SYMBOL, PRICE], {"partition_by": "symbol"}, "partitioned by no column"),
        (InDelta, [], {"partition_by": "sybmol"}, "`sybmol`.*`partition_by`.*did you mean `symbol`"),
        (InDelta, [], {"partition_by": "price"}, "`price` of `partition_by` is double; take"),
        (InDelta, [], {"storage": {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}}, "two writers"),
        (InDelta, [], {"delete": "symbol"}, "needs `key`"),
        (InIceberg, [SYMBOL, PRICE], {"partition_by": "symbol"}, "partitioned by no"),
        (InIceberg, [], {"table": "rows"}, "name the namespace"),
        (InIceberg, [], {"properties": {"type": "sql"}}, "Iceberg table shop.items of catalog shop"),
    ],
)
def test_a_table_or_a_property_that_does_not_fit_is_refused(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kind: type[Store],
    fields: list[pa.Field],
    properties: dict[str, Any],
    what: str,
) -> None:
    store = kind(request, tmp_path)
    if fields:
        store.make(*fields)
    with pytest.raises(RidgelineError, match=what):
        run_local(writing(store.output(**properties), Price, PRICES))


def test_columns_that_the_stream_lacks_are_null(tmp_path: Path) -> None:
    fields = [("day", pa.date32()), ("price", pa.float64()), ("symbol", pa.string())]
    DeltaTable.create(tmp_path / "table", schema=Schema.from_arrow(pa.schema(fields)), partition_by=["day"])
    run_local(writing(DeltaOutput(tmp_path / "table"), Price, PRICES[:1]))
    assert fetch(tmp_path / "table") == [{"day": None, "price": 12.5, "symbol": "IBM"}]


@pytest.mark.parametrize("name", ["a b", "a,b", "a=b", "x{"])
def test_a_name_that_delta_does_not_have_is_refused(tmp_path: Path, name: str) -> None:
    app = writing(DeltaOutput(tmp_path / "table"), pa.schema([(name, pa.int64())]), [(1,)])
    with pytest.raises(RidgelineError, match="is no name of a column in Delta; give it another name"):
        run_local(app)


WINDOWS = [one for number in range(5) for one in ((f"s{number}", 1.0), END_WINDOW)]


@pytest.fixture
def before_window_2(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What is done before window 2 is written."""
    calls: list[Callable[[], None]] = []
    real = DeltaSink.write

    def write(self: DeltaSink, batches: Sequence[Batch], mark: Mark) -> None:
        if mark.window == 2:
            for call in calls:
                call()
        real(self, batches, mark)

    monkeypatch.setattr(DeltaSink, "write", write)
    monkeypatch.setattr(DeltaSink, "most_bytes", 1)
    return calls


def test_a_table_that_is_removed_meanwhile_ends_the_run(
    tmp_path: Path, before_window_2: list[Callable[[], None]]
) -> None:
    before_window_2.append(lambda: shutil.rmtree(tmp_path / "table"))
    with pytest.raises(RidgelineError, match="cannot write to Delta table"):
        run_local(writing(DeltaOutput(tmp_path / "table"), Price, WINDOWS))
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
def test_no_row_is_written_without_its_mark(
    tmp_path: Path, before_window_2: list[Callable[[], None]], restarts: bool
) -> None:
    path, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    app = writing(DeltaOutput(path), Price, WINDOWS)
    if restarts:
        run_local(app, checkpoint=checkpoint, windows=2)
    before_window_2.append(lambda: drop_marks(path))
    with pytest.raises(RidgelineError, match=r"its mark .* is gone"):
        run_local(app, checkpoint=checkpoint)
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


class StoredRows(ConnectorTarget):
    """A table in an S3 store that is killed, cut off or paused."""

    def __init__(self, service: SeaweedFS, key: str | None, way: str = "kill") -> None:
        self.service, self.way = service, way
        self.key, self.upserts = key, key is not None
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

    def stored(at: str = uri, drain_seconds: float = 60.0, **changed: Any) -> Any:
        storage = {**store(seaweedfs.endpoint), **changed}
        return DeltaOutput(at, storage=storage, drain_seconds=drain_seconds)

    wrong = [
        (stored(aws_endpoint_url="http://127.0.0.1:1", drain_seconds=0.2), "nothing is lost"),
        (stored(aws_secret_access_key="env:NO_LAKE"), "environment variable `NO_LAKE` is not set"),
        (stored("s3://there-is-no-such-bucket/prices"), "check `path` and `storage`"),
    ]
    check_that_no_secret_is_shown(secret, [stored(), stored(aws_secret_access_key=secret)], wrong)
    options = {**store(seaweedfs.endpoint), "aws_secret_access_key": secret, "aws_allow_http": "true"}
    assert len(fetch(uri, storage_options=options)) == 6


def test_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(RidgelineError, match=r"pip install 'ridgeline\[lake\]'"):
        run_local(writing(DeltaOutput(tmp_path / "table"), Price, PRICES))


def test_no_secret_of_a_catalog_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2-very-secret"
    monkeypatch.setenv("LAKE", secret)
    properties = {"type": "rest", "uri": "http://127.0.0.1:1", "token": "env:LAKE"}
    output = IcebergOutput("shop.rows", properties=properties, drain_seconds=0.2)
    check_that_no_secret_is_shown(secret, [], [(output, "nothing is lost")])
