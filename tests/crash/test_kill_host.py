"""A standalone cluster of two hosts; one of them loses its power with windows in flight."""

import re
import signal

import pytest

from support.crash.hosts import Cluster
from support.crash.processes import committed
from support.crash.rows import Reader, check_published
from support.depth import deeper
from support.engine.certificates import certificate_and_key
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"
_WAIT = "spark.scheduler.maxRegisteredResourcesWaitingTime=300s"  # a busy machine starts executors late
PLACES = ("--conf", "spark.cores.max=4", "--conf", "spark.executor.cores=2", "--conf", _WAIT)
PROPERTIES = ("numbers.windows=1000000", "sums.pause_seconds=0.02", "store.roll_seconds=0.3")
OPTIONS = [
    *(part for value in PROPERTIES for part in ("-D", value)),
    *(
        part
        for name in ("numbers", "sums", "store")
        for part in ("--attribute", f"{name}.recovery_attempts=20")
    ),
]


@pytest.mark.guide("002", "Multi-Node Cluster")
@pytest.mark.parametrize(
    "cores", [pytest.param(4, id="spare cores"), pytest.param(2, id="no spare cores", marks=deeper)]
)
def test_slots_of_a_host_that_is_gone_go_on_elsewhere(start, wait_until, tmp_path, cores):
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    tls = []
    for name, text in zip(("certificate", "key"), certificate_and_key(), strict=True):
        (tmp_path / f"{name}.pem").write_text(text)
        tls += ["--conf", f"spark.ridgeline.slots.{name}={tmp_path}/{name}.pem"]
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        wait_until(lambda: "I have been elected leader" in cluster.text("master"), "the master")
        for name in cluster.names:
            cluster.start_worker(name, cores=cores)
        wait_until(
            lambda: cluster.text("master").count("Registering worker") == len(cluster.names),
            "the workers",
        )
        reader = Reader(output, checkpoint)
        reader.start()
        patience = "5s" if cores == 2 else "300s"  # so long a busy machine may take to start an executor
        waiting = ("--conf", f"spark.ridgeline.slots.patience={patience}", "--log-level", "INFO")
        arguments = (*cluster.settings, *PLACES, *tls, *OPTIONS, *waiting)
        driver = start(
            APPLICATION,
            "--output",
            output,
            "--checkpoint",
            checkpoint,
            "--locality",
            "NODE_LOCAL",
            *arguments,
        )

        def wait(condition, what):
            wait_until(lambda: condition() or driver.exit_code is not None, what)
            assert driver.exit_code is None, driver.text

        wait(lambda: committed(checkpoint) >= 5, "five windows")
        hosts = dict(re.findall(r"slot (\d+) is there: process \d+ on `(\w+)`", driver.text))
        assert set(hosts.values()) == {"alpha", "beta"}
        assert len(hosts) == 3  # of four cores one is left for Spark's own jobs
        assert hosts["0"] == hosts["1"]  # NODE_LOCAL
        lost, left = hosts["0"], hosts["2"]
        before = committed(checkpoint)
        cluster.kill_host(lost)
        wait(lambda: committed(checkpoint) >= before + 10, "ten windows more")
        again = dict(re.findall(r"slot (\d+) is there again: process \d+ on `(\w+)`", driver.text))
        assert set(again.items()) <= {("0", left), ("1", left)}
        if cores == 2:
            assert "Spark has cores for 1 slot only: all containers of 3 slots live there now" in driver.text
        else:
            assert len(again) == 2
            assert "stays on" not in driver.text
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait() == 0, driver.text
        reader.finish()

    windows = committed(checkpoint) + 1
    check_published(output, windows, APPLICATION, tmp_path)
