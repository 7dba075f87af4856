"""The store of a checkpoint (S3) cannot be reached for a while: the run says so, waits and continues."""

import re
import signal
import time

import pytest

from support import services
from support.crash.on_store import OnStore
from support.depth import deep
from support.jars import jars
from support.services.fixtures import ready

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

SECONDS = deep(3)
AWAY = r"the checkpoint's store \(`s3a://\S+`\) (?:cannot be reached from `\S+`: it )?has not answered "
"""The driver says it, or a slot whose state is to be written, whichever needs the store first."""
SILENT = AWAY + r"for \d+ s"


@pytest.fixture
def store():
    """An S3 in memory, behind a proxy."""
    jars("s3")
    found = ready(services.seaweedfs)
    yield found
    found.recover()


def cut(run, *, hang):
    """Cut the network to the store for a while: it is said, and windows go on by themselves."""
    said = run.said(SILENT)
    run.store.cut(hang=hang)
    run.says(SILENT, said + 1)
    application = run.ask("progress")["application"]
    assert application["verdict"] == "stuck"
    [why] = application["stuckStores"]
    assert re.fullmatch(AWAY + r"since 20\S+.*", why)
    assert why[:100] in run.ask("sentence")["text"]
    time.sleep(SECONDS)
    run.store.mend()
    run.says(r"the checkpoint's store \(`\S+`\) answers again after \d+ s", said + 1)
    run.continues()
    assert run.ask("progress")["application"]["stuckStores"] == []


def test_a_store_that_is_cut_off_is_waited_for(start, wait_until, store, tmp_path):
    run = OnStore(start, wait_until, store, tmp_path)
    run.continues()
    for hang in (False, True):
        cut(run, hang=hang)
    store.cut()
    run.says(SILENT, 3)
    run.driver.process.send_signal(signal.SIGINT)
    assert run.driver.wait() != 0
    assert "the store has not answered for" in run.driver.text
    assert re.search(r"\d+ windows? of this run committed", run.driver.text)
    store.mend()
    run.start("again.log")
    run.continues()
    run.finish()


def test_a_driver_that_was_cut_off_commits_nothing_more_once_another_one_runs(
    start, wait_until, store, tmp_path
):
    cut_off = OnStore(start, wait_until, store, tmp_path)
    cut_off.continues()
    store.cut()
    cut_off.says(SILENT)
    other = OnStore(start, wait_until, store, tmp_path, cut_off.bucket, "other.log")
    other.continues()
    store.mend()
    assert cut_off.driver.wait() != 0
    assert re.search("taken over by another driver|committed to .* by another driver", cut_off.driver.text)
    other.continues()
    other.finish()
