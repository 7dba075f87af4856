"""The store of an output (SeaweedFS) is away at random moments: the run waits, and continues by itself."""

import random
import signal
import time

import pyarrow.fs
import pytest

from support.crash.on_cluster import APPLICATION
from support.crash.on_store import OnStore, store_behind_proxy
from support.crash.processes import committed
from support.crash.rows import check_published
from support.depth import DEPTH, deep

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

WAITS = r"`store` (?:on `\S+` )?has waited for (?:`\S+`|its files) for \d+ s"


@pytest.fixture
def store():
    """See `store_behind_proxy`."""
    yield from store_behind_proxy()


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


def breaks(store):
    """The ways in which the store goes away."""
    yield store.cut
    yield lambda: store.cut(hang=True)
    yield store.pause
    if store.NAME == "seaweedfs":
        yield store.kill


@pytest.mark.parametrize(
    "local",
    [
        True,
        pytest.param(False, marks=pytest.mark.skipif(DEPTH < 2, reason="the checkpoint: test_cut_store.py")),
    ],
    ids=["local checkpoint", "all in the store"],
)
def test_a_store_that_goes_away_at_random_moments_ends_no_run(start, wait_until, store, tmp_path, local):
    chance = random.Random(time.time_ns())
    run = Writing(start, wait_until, store, tmp_path, local=local)
    run.continues()
    ways = list(breaks(store))
    for number in range(deep(2)):
        time.sleep(chance.random())
        ways[(number + 2 * local) % len(ways)]()
        time.sleep(chance.uniform(1, 6))
        store.recover()
        run.continues()
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
