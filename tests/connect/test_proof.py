"""A proof against a server of PostgreSQL, whose database stays as it was."""

from __future__ import annotations

import psycopg
import pytest

from ridgeline import RidgelineError
from ridgeline.operators.postgres import PostgresOutput
from ridgeline.testing.connectors.proof import prove
from ridgeline.testing.services import Postgres


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
