"""What all tests share: one Spark session a process, and helpers that wait instead of sleeping."""

import os
import sys

import pytest

from support.longest_first import longest_first
from support.waiting import wait_until


def pytest_collection_modifyitems(config, items):
    """Where several processes share the tests, files that take long begin first."""
    if hasattr(config, "workerinput"):
        longest_first(items)


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory):
    """The shared session's `spark.local.dir`: what it writes lies here."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark_context(spark_folder):
    """The one SparkContext of this process: two cores, two more for slots, what streaming needs.

    Tests leave it running.
    """
    from ridgeline.engine.spark.session import start_context

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.local.dir": str(spark_folder),
        "spark.sql.warehouse.dir": str(spark_folder / "warehouse"),
    }
    needs = {"streaming": True, "local_checkpoint": True, "slots": 2}
    context = start_context("ridgeline-tests", "local[2]", settings, **needs)
    yield context
    context.stop()


@pytest.fixture(name="wait_until")
def _wait_until():
    """`wait_until(condition, "what for")` returns the first true value; after `seconds` the test fails."""
    return wait_until
