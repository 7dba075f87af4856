"""A password that is changed while it is kept: PostgreSQL refuses it, and the command is asked again."""

import sys
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest

from ridgeline import RidgelineError
from ridgeline.connect import forget_secrets
from ridgeline.operators.postgres.connecting import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def vault(tmp_path):
    """`vault(password)`: keep it; `vault.command` prints it, and counts how often it was asked."""

    class Vault:
        def __init__(self):
            self._kept, self._asked = tmp_path / "kept", tmp_path / "asked"
            program = tmp_path / "vault.py"
            program.write_text(
                f"open({str(self._asked)!r}, 'a').write('x')\nprint(open({str(self._kept)!r}).read())"
            )
            self.command = f"command:{sys.executable} '{program}'"

        def __call__(self, password):
            self._kept.write_text(password)

        @property
        def asked(self):
            return len(self._asked.read_text())

    forget_secrets()
    yield Vault()
    forget_secrets()


def test_a_login_that_is_refused_asks_the_command_again(postgres, vault):
    admin = postgres.database()
    user, first, second = f"u{token_hex(4)}", token_hex(), token_hex()
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"create role {user} login password '{first}'")
        rules = Path(connection.execute("show hba_file").fetchone()[0])
        own = f"host all {user} all scram-sha-256\nlocal all {user} scram-sha-256\n"
        rules.write_text(own + rules.read_text())  # that of the test trusts all
        connection.execute("select pg_reload_conf()")
        wait_until(lambda: _is_refused(admin, user), "the rules")
        server = Server(_as(admin, user), vault.command, {})
        vault(first)
        for _ in range(3):
            server.connect("sales").close()
        assert vault.asked == 1
        connection.execute(f"alter role {user} password '{second}'")
        vault(second)
        server.connect("sales").close()
        assert vault.asked == 2
        vault("wrong" + token_hex())
        forget_secrets()
        with pytest.raises(
            RidgelineError, match=f'password authentication failed for user "{user}"'
        ) as caught:
            server.connect("sales")
        assert second not in str(caught.value)
        assert vault.asked == 4  # once more, and then it is said


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
