"""Checkpoints on S3 through Spark's own connector, against a server that answers as S3 does (SeaweedFS)."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from ridgeline.testing.services import SeaweedFS
from support import services
from support.jars import jars
from support.paths import TESTS
from support.services.fixtures import ready

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STEPS = {"names": 3, "create": 30, "removed": 3, "race": 30, "run": 15, "regions": 5}
"""What the steps are repeated for, rounds or windows; each has a bucket of its name."""
SUMS = [sum(range(10 * window + 10)) for window in range(40)]


@pytest.fixture(scope="module")
def server():
    """An S3 in memory, which notes its requests."""
    return ready(services.seaweedfs)


@pytest.fixture(scope="module")
def on_s3(server):
    """`on_s3("race")`: what that step of `support.s3.drivers` returned, and all that its process printed.

    All steps in one process, which has S3's settings from Spark only: its start takes most of the time.
    """
    import pyarrow.fs

    jars("s3")
    store = pyarrow.fs.S3FileSystem(
        access_key=server.KEY,
        secret_key=server.SECRET,
        endpoint_override=server.direct_endpoint,
        region="us-east-1",
        allow_bucket_creation=True,
    )
    for name in STEPS:
        store.create_dir(name)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment["AWS_EC2_METADATA_DISABLED"] = "true"
    steps = [f"{name}={count}" for name, count in STEPS.items()]
    command = [sys.executable, "-m", "support.s3.drivers", server.direct_endpoint, *steps]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    results = dict(
        line.removeprefix("RESULT ").split(" ", 1)
        for line in ran.stdout.splitlines()
        if line.startswith("RESULT ")
    )
    said = ran.stdout + ran.stderr

    def result_of(name):
        assert name in results, ran.stdout[-2000:] + ran.stderr[-4000:]
        return json.loads(results[name]), said

    return result_of


def test_one_of_two_drivers_creates_each_file(on_s3):
    counts, _ = on_s3("create")
    assert counts == [1] * STEPS["create"]


def test_a_file_that_stood_in_the_way_and_is_gone_was_not_created(on_s3):
    answers, _ = on_s3("removed")
    assert answers == [False] * STEPS["removed"]


@pytest.mark.guide("002", "HDFS")
def test_two_drivers_never_both_commit_a_window(on_s3):
    outcomes, _ = on_s3("race")
    assert len(outcomes) == STEPS["race"]
    assert all(distinct for _, distinct in outcomes)
    kinds = Counter(" and ".join(got) for got, _ in outcomes)
    print(dict(kinds))
    assert set(kinds) <= {"committed and fenced", "fenced and fenced"}


def test_a_name_is_taken_by_one_driver(on_s3):
    starts, _ = on_s3("names")
    assert starts == [[8]] * STEPS["names"]


def test_two_drivers_one_after_the_other_lose_nothing_and_show_no_secret(on_s3):
    collected, said = on_s3("run")
    assert collected == SUMS[: 2 * STEPS["run"]]
    assert SeaweedFS.SECRET not in said


def test_regions_and_their_queues_lie_on_s3(on_s3):
    collected, _ = on_s3("regions")
    assert collected == {"fast": list(range(100)), "slow": list(range(100))}
