"""Proofs against real databases and tables of a lake, which stay as they were."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog

from ridgeline import RidgelineError
from ridgeline.connect.window_output import WindowOutput
from ridgeline.operators.lake import DeltaOutput, IcebergOutput
from ridgeline.operators.mariadb import MariaDbOutput
from ridgeline.operators.mariadb.connecting import Server
from ridgeline.operators.postgres import PostgresOutput
from ridgeline.testing.connectors.proof import Proof, prove
from ridgeline.testing.services import MariaDB, Moto, Postgres, SeaweedFS

_SOME = ("2 partitions", "driver killed, write: in, time 1", "down and up", "a row is refused", "kills")
"""Of each kind of check the shortest; all take minutes."""


def names(dsn: str) -> set[str]:
    """All tables and schemas of the database but the server's own."""
    tables = "select schemaname || '.' || tablename from pg_tables where schemaname not in ('pg_catalog', %s)"
    with psycopg.connect(dsn) as connection:
        found = connection.execute(tables, ("information_schema",)).fetchall()
        schemas = connection.execute("select nspname from pg_namespace").fetchall()
    return {name for (name,) in (*found, *schemas) if not name.startswith("pg_")}


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "country"])
def test_postgres_is_proved_in_a_schema_of_its_own(postgres: Postgres, key: str | None) -> None:
    dsn = postgres.database()
    before = names(dsn)
    found = prove(PostgresOutput("totals", dsn=dsn, key=key), kills=10)
    assert found.holds, found
    assert found.guarantee == "exactly once"
    assert found.kills == (10, 10)
    assert not [one for one in found.outcomes if one.skipped], "the connection is cut by a relay"
    assert names(dsn) == before


@pytest.mark.slow
def test_a_user_who_may_not_make_schemas_is_said(postgres: Postgres) -> None:
    dsn = postgres.database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop role if exists clerk")
        connection.execute("create role clerk login")
    output = PostgresOutput("totals", dsn=dsn, connection={"user": "clerk"})
    with pytest.raises(RidgelineError, match=r"may not make a scratch schema .*grant it CREATE"):
        prove(output, kills=0)


def proved(output: WindowOutput, skipped: Sequence[str] = ()) -> Proof:
    """The proof of an output by some of the checks. `skipped`: parts of the names of those that are."""
    found = prove(output, kills=3, only=_SOME)
    assert found.holds, found
    assert (found.guarantee, found.kills, found.kept) == ("exactly once", (3, 3), [])
    names = [one.check for one in found.outcomes if one.skipped]
    assert len(names) == len(skipped), names
    assert all(part in name for part, name in zip(skipped, names, strict=True)), names
    assert not output.scratch_left()
    return found


@pytest.mark.slow
def test_mariadb_is_proved_in_a_database_of_its_own(mariadb: MariaDB) -> None:
    url = mariadb.database()
    output = MariaDbOutput("totals", url=url, key="country", delete="gone")
    found = proved(output)
    assert any("without `delete`" in note for note in found.notes)
    with pytest.raises(RidgelineError, match=r"does not answer: .*correct `url`"):
        prove(MariaDbOutput("totals", url="mariadb://root@127.0.0.1:1/sales"), kills=0)


@pytest.mark.slow
def test_a_user_who_may_not_make_databases_is_said(mariadb: MariaDB) -> None:
    url = mariadb.database()
    with closing(Server(url, None, {}).connect("test")) as connection, connection.cursor() as cursor:
        cursor.execute("create or replace user clerk identified by ''")
        cursor.execute(f"grant select on {url.rpartition('/')[2]}.* to clerk")
    with pytest.raises(RidgelineError, match=r"may not make a scratch database .*grant it all on"):
        prove(MariaDbOutput("totals", url=url.replace("root@", "clerk@")), kills=0)


@pytest.mark.slow
def test_delta_is_proved_in_a_table_beside(tmp_path: Path) -> None:
    table = tmp_path / "totals"
    write_deltalake(table, pa.table({"country": ["CH"], "cents": [7]}))
    found = proved(DeltaOutput(table, partition_by="country", overwrite=True), ["down and up"])
    assert any("`partition_by` is `key`" in note for note in found.notes)
    assert [path.name for path in tmp_path.iterdir()] == ["totals"]
    assert DeltaTable(table).version() == 0


@pytest.mark.slow
def test_delta_is_proved_in_a_store(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_SECRET", SeaweedFS.SECRET)
    storage: dict[str, Any] = {
        "aws_endpoint_url": moto.endpoint,
        "aws_access_key_id": "ridgeline",
        "aws_secret_access_key": "env:LAKE_SECRET",
        "aws_region": "us-east-1",
    }
    bucket = moto.bucket()
    proved(DeltaOutput(f"s3://{bucket}/totals", key="country", storage=storage))
    with pytest.raises(RidgelineError, match="no room for a scratch table"):
        prove(DeltaOutput(f"s3://{bucket}", storage=storage))


@pytest.mark.slow
def test_iceberg_is_proved_in_a_table_beside(tmp_path: Path) -> None:
    catalog: dict[str, Any] = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}",
    }
    with load_catalog("shop", **catalog) as shop:
        shop.create_namespace("others")
    proved(
        IcebergOutput("shop.totals", catalog="shop", properties=catalog, key="country"),
        ["down and up", "refused", "refused and left out"],
    )
    with load_catalog("shop", **catalog) as shop:
        assert shop.list_namespaces() == [("others",)]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "catalog.db"]
