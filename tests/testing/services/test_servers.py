"""Real servers of PostgreSQL, MariaDB, schemas and objects: killed, restarted, cut off."""

import json
import socket
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.fs
import pytest

from support import services
from support.services import ServiceError
from support.waiting import wait_until

pytestmark = pytest.mark.crash
ENDS = pytest.mark.parametrize("end", ["kill", "stop"])


@ENDS
def test_mariadb_keeps_what_was_committed(mariadb, end):
    name = mariadb.database().rpartition("/")[2]
    mariadb.execute("create table t (a int); insert into t values (1), (2)", database=name)
    getattr(mariadb, end)()
    mariadb.start()
    assert mariadb.execute("select a from t order by a", database=name) == "1\n2"


def test_mariadb_says_what_is_wrong_and_has_a_log_of_rows(mariadb):
    with pytest.raises(ServiceError, match="You have an error in your SQL syntax"):
        mariadb.execute("selec 1")
    assert mariadb.execute("select @@binlog_format, @@log_bin") == "ROW\t1"


def _ask(url, value=None):
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


@ENDS
def test_the_registry_keeps_its_schemas(registry, end):
    schema = json.dumps({"type": "record", "name": "Row", "fields": [{"name": "n", "type": "long"}]})
    url = f"{registry.url}/subjects/rows-value-{end}/versions"
    number = _ask(url, {"schema": schema})["id"]
    getattr(registry, end)()
    registry.start()
    assert json.loads(_ask(f"{registry.url}/schemas/ids/{number}")["schema"]) == json.loads(schema)


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


def test_one_of_many_writers_creates_an_object(seaweedfs):
    boto3 = pytest.importorskip("boto3")
    store = seaweedfs
    client = boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        aws_access_key_id=store.KEY,
        aws_secret_access_key=store.SECRET,
        region_name=store.REGION,
    )
    bucket = store.bucket()

    def create(number):
        try:
            client.put_object(Bucket=bucket, Key="one", Body=b"%d" % number, IfNoneMatch="*")
        except client.exceptions.ClientError as error:
            return error.response["ResponseMetadata"]["HTTPStatusCode"]
        return 200

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(create, range(8)))
    assert answers.count(200) == 1
    assert set(answers) <= {200, 409, 412}
    client.close()


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
