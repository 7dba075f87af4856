"""A real PostgreSQL server that is killed, stopped, paused and cut off."""

import socket
import threading

import pytest

from support import services
from support.waiting import wait_until

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_what_was_committed_is_there_after_the_server_has_ended(postgres, end):
    table = f"kept_by_{end}"
    postgres.execute(f"create table {table} (a int); insert into {table} values (1), (2)")
    getattr(postgres, end)()
    assert not postgres.running
    postgres.start()
    assert postgres.execute(f"select a from {table} order by a") == "1\n2"


def test_a_database_is_apart_from_the_others(postgres):
    first, second = (postgres.database().rpartition("/")[2] for _ in range(2))
    postgres.execute("create table t (a int)", database=first)
    with pytest.raises(services.ServiceError, match='relation "t" does not exist'):
        postgres.execute("select * from t", database=second)


def test_logical_replication_is_there(postgres):
    postgres.execute("select pg_create_logical_replication_slot('one', 'pgoutput')")
    assert postgres.execute("select slot_type from pg_replication_slots where slot_name = 'one'") == "logical"
    postgres.execute("select pg_drop_replication_slot('one')")


def test_all_processes_of_a_paused_server_stand_still(postgres):
    postgres.pause()
    done = threading.Event()

    def ask():
        postgres.execute("select 1")
        done.set()

    asking = threading.Thread(target=ask)
    asking.start()
    assert not done.wait(0.5)
    postgres.resume()
    asking.join()
    assert done.is_set()


def test_connections_are_refused_while_the_network_is_cut(postgres):
    host, port = postgres.dsn.rpartition("@")[2].partition("/")[0].split(":")
    postgres.cut()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    assert postgres.execute("select 1") == "1"  # past the proxy
    postgres.mend()
    socket.create_connection((host, int(port))).close()


def test_settings_come_last():
    with services.postgres(settings={"work_mem": "12345kB"}) as postgres:
        assert postgres.execute("show work_mem") == "12345kB"


def test_a_wrong_setting_is_said_with_what_the_server_printed():
    with pytest.raises(services.ServiceError, match=r"(?s)postgres: .*no_such_setting"):
        services.postgres(settings={"no_such_setting": "1"}).start()


def test_its_folder_is_gone_after_the_block_and_stays_if_it_was_given(tmp_path_factory):
    with services.postgres() as postgres:
        folder = postgres.folder
        assert (folder / "data").is_dir()
    assert not folder.exists()
    assert not postgres.running


def test_two_run_at_once():
    with services.postgres() as first, services.postgres() as second:
        assert first.dsn != second.dsn
        first.execute("create table t (a int)")
        with pytest.raises(services.ServiceError, match="does not exist"):
            second.execute("select * from t")
        wait_until(lambda: second.running, "the second")
