"""Outputs, queues between regions and Spark's own writer whose store is away: the run waits, and continues.

`TEST_DEPTH=10`: 20 rounds of each, in which stores are away for up to half a minute.
"""

import contextlib
import json
import re
import signal
import time

import pyarrow.fs
import pytest

from support.crash.disks import full, mounted, small_disk
from support.crash.on_cluster import APPLICATION
from support.crash.on_store import OnStore, s3_settings, store_behind_proxy
from support.crash.processes import committed
from support.crash.regions_in_trouble import Regions
from support.crash.rows import check_published
from support.depth import DEPTH, deep
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

WAITS = r"`\w+` (?:on `\S+` )?has waited for (?:`\S+`|its files) for \d+ s"
DEEPER = pytest.mark.skipif(
    DEPTH < 2, reason="each step: operators/test_queues_wait.py, test_spark_output.py"
)
SECONDS = (1, 6) if DEPTH <= 1 else (5, 30)


@pytest.fixture
def store():
    """See `store_behind_proxy`."""
    yield from store_behind_proxy()


def broken(store, number):
    """Let the store go away, in one way after the other."""
    ways = {
        "cut": store.cut,
        "hang": lambda: store.cut(hang=True),
        "pause": store.pause,
        "kill": store.kill if store.NAME == "seaweedfs" else store.cut,
    }
    name = list(ways)[number % len(ways)]
    ways[name]()
    return name


def rounds(run, chance, count, breaks):
    """Break something so often, at random moments and for so long; all regions continue each time."""
    run.continues()
    for number in range(count):
        time.sleep(chance.random())
        name, mend = breaks(number)
        seconds = chance.uniform(*SECONDS)
        time.sleep(seconds)
        mend()
        began = time.monotonic()
        run.continues()
        print(f"{number}: {name} for {seconds:.1f} s, five windows {time.monotonic() - began:.1f} s later")


@DEEPER
def test_regions_whose_store_goes_away_at_random_moments(start, wait_until, store, tmp_path, chance):
    run = Regions(start, wait_until, tmp_path, store)
    first = chance.randrange(4)
    rounds(run, chance, deep(2), lambda number: (broken(store, first + number), store.recover))
    store.cut()
    run.stops_while_stuck(rf"{WAITS}|the checkpoint's store \(`s3a://\S+`\) has not answered for \d+ s")
    store.mend()
    run.start("again.log")
    run.continues()
    print(run.finish(), "rows")


def test_regions_whose_disk_fills_up_and_whose_mounts_go_away(start, wait_until, tmp_path, chance):
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / "disk", 64))
        queues = stack.enter_context(mounted(tmp_path / "checkpoint" / "queues", disk / "queues"))
        output = stack.enter_context(mounted(tmp_path / "output", disk / "output"))
        run = Regions(start, wait_until, tmp_path)

        def breaks(number):
            way = number % 3
            if way == 0:
                filled = contextlib.ExitStack()
                filled.enter_context(full(disk))
                return "full", filled.close
            gone = (queues, output)[way - 1]
            gone.take_away()
            return f"unmounted {gone.folder.name}", gone.put_back

        rounds(run, chance, deep(3), breaks)
        queues.take_away()
        run.stops_while_stuck(rf"{WAITS}.* is it mounted\?")
        queues.put_back()
        run.start("again.log")
        run.continues()
        print(run.finish(), "rows")


class BySpark(OnStore):
    """`to_spark.py`, whose rows Spark itself writes into the store; the checkpoint is on the disk."""

    def start(self, log):
        settings = s3_settings(self.store)  # Spark's own tries would take minutes
        settings |= {f"spark.hadoop.fs.s3a.{name}": "1" for name in ("retry.limit", "attempts.maximum")}
        options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        self.driver = self._start(
            SUPPORT / "crash" / "to_spark.py",
            *("--output", f"s3a://{self.bucket}/output", "--checkpoint", self.folder / "checkpoint"),
            *("--master", "local[3]", "--log-level", "INFO", *options),
            log=log,
            RIDGELINE_DEBUG="1",
        )

    def continues(self):
        before = self.windows
        self.wait(lambda: self.windows >= before + 3, "three windows more")

    def rows(self):
        """The numbers in the folder of each window."""
        copy = self.folder / "copy"
        files = self.store._files()
        pyarrow.fs.copy_files(f"{self.bucket}/output", str(copy), source_filesystem=files, use_threads=False)
        return {
            int(folder.name.partition("=")[2]): sorted(
                json.loads(line)["value"]
                for path in folder.glob("*.json")
                for line in path.read_text().splitlines()
            )
            for folder in copy.glob("window=*")
        }


@DEEPER
def test_what_spark_writes_waits_for_its_store(start, wait_until, store, tmp_path, chance):
    run = BySpark(start, wait_until, store, tmp_path)
    first = chance.randrange(4)
    rounds(run, chance, deep(2), lambda number: (broken(store, first + number), store.recover))
    said = run.said(WAITS)
    store.cut()
    run.says(rf"{WAITS} \(\d+ attempts?, last error: ", said + 1)
    application = run.ask("progress")["application"]
    assert application["verdict"] == "stuck"
    assert any("`store` has waited for its files since 20" in why for why in application["stuckStores"])
    run.driver.process.send_signal(signal.SIGINT)
    assert run.driver.wait() != 0
    assert re.search("the rows are in the checkpoint and will be written", run.driver.text)
    store.mend()
    run.start("again.log")
    run.continues()
    run.driver.process.send_signal(signal.SIGTERM)
    assert run.driver.wait() == 0, run.driver.text[-6000:]
    found = run.rows()
    assert found == {window: list(range(10 * window, 10 * window + 10)) for window in range(len(found))}
    assert len(found) > 8


class Writing(OnStore):
    """`numbers.py` that writes into the store. `local`: its checkpoint is on the disk, else in the store."""

    def __init__(self, *given, local):
        self.local = local
        super().__init__(*given)

    @property
    def places(self):
        checkpoint = self.folder / "checkpoint" if self.local else f"s3a://{self.bucket}/checkpoint"
        return "--output", f"s3a://{self.bucket}/output", "--checkpoint", checkpoint

    def copied(self, name):
        """A folder of the store as one of the disk."""
        if name == "checkpoint" and self.local:
            return self.folder / name
        files, copy = self.store._files(), self.folder / f"copy-{name}"
        pyarrow.fs.copy_files(f"{self.bucket}/{name}", str(copy), source_filesystem=files, use_threads=False)
        return copy

    def finish(self):
        self.driver.process.send_signal(signal.SIGTERM)
        assert self.driver.wait() == 0, self.driver.text[-6000:]
        windows = committed(self.copied("checkpoint")) + 1
        check_published(self.copied("output"), windows, APPLICATION, self.folder)


@pytest.mark.parametrize(
    "local",
    [
        True,
        pytest.param(False, marks=pytest.mark.skipif(DEPTH < 2, reason="the checkpoint: test_cut_store.py")),
    ],
    ids=["local checkpoint", "all in the store"],
)
def test_a_store_that_goes_away_at_random_moments_ends_no_run(
    start, wait_until, store, tmp_path, chance, local
):
    run = Writing(start, wait_until, store, tmp_path, local=local)
    rounds(run, chance, deep(2), lambda number: (broken(store, number + 2 * local), store.recover))
    said = run.said(WAITS)
    store.cut()
    if local:
        run.says(WAITS, said + 1)
        application = run.ask("progress")["application"]
        assert application["verdict"] == "stuck"
        assert any("`store` " in why for why in application["stuckStores"])
    else:
        time.sleep(1)
    run.driver.process.send_signal(signal.SIGINT)
    assert run.driver.wait() != 0
    assert "nothing that was committed is lost" in run.driver.text or "not answered" in run.driver.text
    store.mend()
    run.start("again.log")
    run.continues()
    run.finish()
    assert "Traceback" not in run.driver.text
