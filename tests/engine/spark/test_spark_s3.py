"""Checkpoints on S3 through Spark's own connector, against a server that answers as S3 does (moto)."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from support.jars import jars
from support.paths import TESTS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SUMS = [sum(range(10 * window + 10)) for window in range(40)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Its address, and the file in which it notes requests."""
    log = tmp_path_factory.mktemp("s3") / "requests"
    log.touch()
    command = [sys.executable, "-W", "ignore", "-m", "support.s3.server", str(log)]
    process = subprocess.Popen(
        command, cwd=TESTS, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        port = process.stdout.readline().strip()
        assert port, "the server did not start"
        yield f"http://127.0.0.1:{port}", log
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def on_s3(server, what, count, bucket):
    """What `support.s3.drivers` returns, in a process that has S3's settings from Spark only."""
    import pyarrow.fs

    jars("s3")
    store = pyarrow.fs.S3FileSystem(
        access_key="any",
        secret_key="secret",
        endpoint_override=server[0],
        region="us-east-1",
        allow_bucket_creation=True,
    )
    store.create_dir(bucket)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment["AWS_EC2_METADATA_DISABLED"] = "true"
    command = [
        sys.executable,
        "-m",
        "support.s3.drivers",
        what,
        server[0],
        f"s3a://{bucket}/checkpoint",
        str(count),
    ]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    results = [line for line in ran.stdout.splitlines() if line.startswith("RESULT ")]
    assert results, ran.stdout[-2000:] + ran.stderr[-4000:]
    return json.loads(results[0].removeprefix("RESULT ")), ran.stdout + ran.stderr


def test_one_of_two_drivers_creates_a_file_a_hundred_times(server):
    counts, _ = on_s3(server, "create", 100, "creating")
    assert counts == [1] * 100


@pytest.mark.guide("002", "HDFS")
def test_two_drivers_never_both_commit_a_window(server):
    outcomes, _ = on_s3(server, "race", 100, "racing")
    assert all(distinct for _, distinct in outcomes)
    kinds = Counter(" and ".join(got) for got, _ in outcomes)
    print(dict(kinds))
    assert set(kinds) <= {"committed and fenced", "fenced and fenced"}


def test_a_window_costs_few_requests(server):
    before = server[1].read_text().count("\n")
    windows = 15
    collected, said = on_s3(server, "run", windows, "running")
    assert collected == SUMS[: 2 * windows]
    assert "secret" not in said
    requests = server[1].read_text().splitlines()[before:]
    commits = [
        number for number, line in enumerate(requests) if line.startswith("PUT ") and "/journal/0" in line
    ]
    assert 2 <= len(commits) - 2 <= 2 * windows  # a seal for each driver; a commit may cover several windows
    states = [line for line in requests if line.startswith(("PUT ", "POST ")) and "/state/" in line]
    steady = requests[commits[2] : commits[len(commits) // 2 - 1]]  # of the first driver
    per_commit = len(steady) / (len(commits) // 2 - 3)
    print(
        f"{per_commit:.1f} requests a commit, {len(states)} for state files; "
        f"{Counter(line.split(' ')[0] for line in steady)}"
    )
    changed = sum(
        "/state/" in line and line.startswith(("PUT ", "POST ")) and "delete" not in line for line in steady
    ) / (len(commits) // 2 - 3)
    assert per_commit <= 3 + changed + 1  # one more: old files go every few windows
