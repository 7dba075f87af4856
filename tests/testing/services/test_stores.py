"""Real servers of MariaDB, of schemas and of objects: killed, restarted, cut off."""

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.fs
import pytest

from support.services import ServiceError

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
