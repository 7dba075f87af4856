"""Real servers of PostgreSQL, MariaDB, schemas and objects: killed, restarted, cut off."""

import socket

import pyarrow as pa
import pyarrow.fs
import pytest

from support import services

pytestmark = pytest.mark.crash


def _files(store):
    return pa.fs.S3FileSystem(
        access_key=store.KEY,
        secret_key=store.SECRET,
        endpoint_override=store.endpoint,
        region=store.REGION,
        retry_strategy=pa.fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )


def _write(files, path, data):
    with files.open_output_stream(path) as stream:
        stream.write(data)


def test_objects_of_seaweedfs_survive_a_kill(seaweedfs):
    bucket = seaweedfs.bucket()
    for number in range(20):
        _write(_files(seaweedfs), f"{bucket}/{number}", b"%d" % number * 100_000)
    seaweedfs.kill()
    seaweedfs.start()
    files = _files(seaweedfs)
    assert [files.open_input_stream(f"{bucket}/{number}").read() for number in range(20)] == [
        b"%d" % number * 100_000 for number in range(20)
    ]


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


def test_connections_are_refused_while_the_network_is_cut(postgres):
    host, port = postgres.dsn.rpartition("@")[2].partition("/")[0].split(":")
    postgres.cut()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    assert postgres.execute("select 1") == "1"  # past the proxy
    postgres.mend()
    socket.create_connection((host, int(port))).close()


def test_a_wrong_setting_is_said_with_what_the_server_printed():
    with pytest.raises(services.ServiceError, match=r"(?s)postgres: .*no_such_setting"):
        services.postgres(settings={"no_such_setting": "1"}).start()
