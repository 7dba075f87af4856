"""How many tasks `local[N]` can run, and what Spark is started with for slots."""

import os

import pytest

from ridgeline.engine.spark.cores import local_cores, with_retries

ALL = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[3,2]", 3),
        ("local[*]", ALL),
        ("local-cluster[2,1,512]", None),
        ("spark://host:7077", None),
    ],
)
def test_the_cores_of_local_spark(master, cores):
    assert local_cores(master) == cores


@pytest.mark.parametrize(
    ("master", "extra", "started"),
    [
        ("local", 0, "local[1,4]"),
        ("local[2]", 0, "local[2,4]"),
        ("local[*]", 0, "local[*,4]"),
        ("local[2,1]", 0, "local[2,1]"),
        ("local[2]", 2, "local[4,4]"),
        ("local[2,1]", 1, "local[3,1]"),
        ("local[*]", 1, f"local[{ALL + 1},4]"),
        ("yarn", 2, "yarn"),
        ("local-cluster[2,1,512]", 2, "local-cluster[2,1,512]"),
    ],
)
def test_local_spark_gets_retries_and_task_slots_for_slots(master, extra, started):
    assert with_retries(master, extra) == started
