"""A package on a standalone cluster of two hosts whose workers have neither Ridgeline nor what it needs."""

import json
import re

import pytest

from support.crash.hosts import Cluster
from support.crash.processes import options
from support.packages.environments import bare_environment, pack_environment
from support.packages.wheels import build_shop

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

COUNT = 3000
RATES = {"CH": 104, "DE": 100, "US": 92}
SETTINGS = (
    "spark.cores.max=4",
    "spark.executor.cores=2",
    "spark.scheduler.maxRegisteredResourcesWaitingTime=300s",  # a busy machine starts executors late
    "spark.ridgeline.slots.patience=300s",
    "spark.executorEnv.PYTHONPATH=",
    "spark.executorEnv.PYTHONNOUSERSITE=1",
)


def _expected():
    """The last turnover of each country, computed without the application."""
    totals = dict.fromkeys(RATES, 0)
    for number in range(COUNT):
        country = ("CH", "DE", "US")[number % 3]
        totals[country] += (number % 7 + 1) * RATES[country]
    return totals


@pytest.mark.guide("002", "Multi-Node Cluster")
def test_a_package_and_its_environment_reach_workers_that_have_nothing(start, wait_until, tmp_path):
    newer = build_shop(tmp_path, "1.3", **{"shop/more.py": "NEW = 1\n"})
    first, second = f"{build_shop(tmp_path, '1.2')}:turnover", f"{newer}:turnover"
    bare = bare_environment(tmp_path / "bare")
    archive = pack_environment(tmp_path / "env.tar.gz", "javaproperties")
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        wait_until(lambda: "I have been elected leader" in cluster.text("master"), "the master")
        for name in cluster.names:
            cluster.start_worker(name, cores=2)
        wait_until(lambda: cluster.text("master").count("Registering worker") == 2, "the workers")
        given = options(output=output, checkpoint=checkpoint, log_level="INFO")
        given += [*cluster.settings, *(word for one in SETTINGS for word in ("--conf", one))]
        given += ["--no-config", "-D", f"orders.count={COUNT}"]

        without = start(first, *given, log="without.log", PYSPARK_PYTHON=str(bare))
        assert without.wait() == 3, without.text
        told = "error: the workers cannot run Ridgeline: host `"
        assert told in without.text
        assert f"its Python, `{bare}`, has no module `ridgeline`" in without.text
        assert "ridgeline run ... --archives env.tar.gz" in without.text

        packed = (*given, "--archives", f"{archive}#environment")
        driver = start(first, *packed, "--windows", "5", log="first.log", PYSPARK_PYTHON=str(bare))
        assert driver.wait() == 0, driver.text
        hosts = re.findall(r"slot \d+ is there: process \d+ on `(\w+)`", driver.text)
        assert set(hosts) == {"alpha", "beta"}
        driver = start(second, *packed, log="second.log", PYSPARK_PYTHON=str(bare))
        assert driver.wait() == 0, driver.text

    rows = [json.loads(line) for path in output.rglob("*.jsonl") for line in path.read_text().splitlines()]
    totals = {country: max(row["cents"] for row in rows if row["country"] == country) for country in RATES}
    assert totals == _expected()
