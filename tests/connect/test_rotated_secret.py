"""A password in a file that is changed: the next connection to PostgreSQL reads it again."""

from pathlib import Path
from secrets import token_hex

import psycopg
import pytest

from ridgeline import RidgelineError
from ridgeline.connectors.postgres.connecting import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow


def test_a_password_that_was_changed_counts_for_the_next_connection(postgres, tmp_path):
    admin, kept = postgres.database(), tmp_path / "password"
    user, first, second = f"u{token_hex(4)}", token_hex(), token_hex()
    with psycopg.connect(admin, autocommit=True) as connection:
        _add_user(connection, admin, user, first)
        server = Server(_as(admin, user), f"file:{kept}", {})
        kept.write_text(first)
        server.connect("sales").close()
        connection.execute(f"alter role {user} password '{second}'")
        kept.write_text(second)
        server.connect("sales").close()
        kept.write_text("wrong" + token_hex())
        with pytest.raises(
            RidgelineError, match=f'password authentication failed for user "{user}"'
        ) as caught:
            server.connect("sales")
        assert second not in str(caught.value)


def test_a_login_that_cannot_succeed_is_said(postgres):
    """Waiting would not fix it."""
    admin, user, password = postgres.database(), f"u{token_hex(4)}", token_hex()
    with psycopg.connect(admin, autocommit=True) as connection:
        _add_user(connection, admin, user, password)

        def said(words, password=None, **settings):
            with pytest.raises(RidgelineError, match=f"`sales` cannot connect to .*{words}.*check `dsn`"):
                Server(_as(admin, user), password, settings).connect("sales")

        said("no password supplied")
        said("password authentication failed", "wrong")
        said("server does not support SSL", password, sslmode="require")
        connection.execute(f"alter role {user} nologin")
        said("is not permitted to log in", password)
        connection.execute(f"alter role {user} login")
        database = psycopg.conninfo.conninfo_to_dict(admin)["dbname"]
        connection.execute(f"revoke connect on database {database} from public")
        said("permission denied for database", password)


def test_settings_of_the_connection_may_name_a_secret(postgres, tmp_path, monkeypatch):
    admin, user, password = postgres.database(), f"u{token_hex(4)}", token_hex()
    with psycopg.connect(admin, autocommit=True) as connection:
        _add_user(connection, admin, user, password)
    (tmp_path / "password").write_text(f"{password}\n")
    monkeypatch.setenv("SALES_PASSWORD", password)
    for text in (f"file:{tmp_path}/password", "env:SALES_PASSWORD"):
        Server(_as(admin, user), None, {"password": text}).connect("sales").close()


def _add_user(connection, admin, user, password):
    """A user who needs a password: that of the test trusts all."""
    connection.execute(f"create role {user} login password '{password}'")
    rules = Path(connection.execute("show hba_file").fetchone()[0])
    own = f"host all {user} all scram-sha-256\nlocal all {user} scram-sha-256\n"
    rules.write_text(own + rules.read_text())
    connection.execute("select pg_reload_conf()")
    wait_until(lambda: _is_refused(admin, user), "the rules")


def _is_refused(dsn, user):
    try:
        psycopg.connect(_as(dsn, user)).close()
    except psycopg.OperationalError:
        return True
    return False


def _as(dsn, user):
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    given.pop("password", None)
    return psycopg.conninfo.make_conninfo(**{**given, "user": user})
