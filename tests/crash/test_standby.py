"""A driver on one host, its standbys on others: it dies, stands still or is cut off, and one takes over."""

import re
import signal

import pytest

from ridgeline.testing import services
from ridgeline.testing.services.fixtures import ready
from support.crash.pairs import on_cluster, on_folder, on_s3, stop_processes
from support.depth import DEPTH

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]
deep = pytest.mark.skipif(DEPTH < 2, reason="a deeper round: TEST_DEPTH=2")
FENCED = r"was taken over by|has lost its `lock`|was committed to `.*` by another driver"


@pytest.fixture
def pair(tmp_path, wait_until):
    with on_folder(tmp_path, wait_until) as made:
        yield made


@pytest.fixture(params=[services.moto, pytest.param(services.seaweedfs, marks=deep)])
def pair_on_s3(request, tmp_path, wait_until):
    with on_s3(tmp_path, wait_until, ready(request.param)) as made:
        yield made


@pytest.fixture
def pair_on_cluster(tmp_path, wait_until):
    with on_cluster(tmp_path, wait_until) as made:
        yield made


def is_fenced(pair, driver):
    """The driver ends by itself, and says why."""
    pair.wait(lambda: driver.exit_code is not None, "the end of a driver that is fenced off")
    assert driver.exit_code == 1, driver.text
    assert re.search(f"error: .*({FENCED}).*; this (one|driver) stops, nothing is lost", driver.text)


def test_one_that_stands_still_is_fenced_off_and_one_that_is_stopped_has_no_successor(pair):
    first = pair.run("alpha")
    pair.reader.start()
    standbys = [pair.standby("beta"), pair.standby("gamma")]
    pair.go_on(first, *standbys)

    proceed = stop_processes(first)
    second = pair.takes_over(*standbys)
    third = next(one for one in standbys if one is not second)
    pair.go_on(*standbys)
    proceed()
    is_fenced(pair, first)
    pair.wait(lambda: third.text.count("waits as its standby") == 2, "the other to wait again", *standbys)

    pair.call(second.name, "stop", "numbers", "--store", pair.store)
    assert second.wait() == 0
    assert third.wait() == 0
    assert "`numbers` was ended, so its standby ends, too: it was stopped" in third.text
    pair.finish()


def test_one_that_is_cut_off_from_the_store_is_replaced_and_fenced_off(pair_on_s3):
    pair = pair_on_s3
    first, second = pair.run_beside()
    pair.hosts.cut("alpha")
    pair.takes_over(second)
    pair.go_on(second)
    pair.hosts.mend("alpha")
    is_fenced(pair, first)
    pair.go_on(second)
    pair.finish(second)


@deep
@pytest.mark.parametrize("dies", ["driver", "host"])
def test_a_standby_on_another_host_takes_over(pair, dies):
    first, second = pair.run_beside()
    if dies == "driver":
        first.kill()
    else:
        pair.hosts.kill_host("alpha")
    pair.go_on(second)
    pair.finish(second)
    assert second.text.count("waits as its standby") == 1
    assert re.search(r"takes over `numbers`: its heartbeat has stopped for \d+ s", second.text)


@deep
def test_a_driver_that_gets_a_signal_hands_over_to_its_standby_and_a_fenced_one_stands_by_again(pair):
    """Under supervisors: the same command on both hosts."""
    supervised = ("--supervise", "--back-off", "200ms-1s")
    first = pair.run("alpha", "--standby", "--take-over-after", "12s", *supervised)
    pair.reader.start()
    second = pair.standby("beta", *supervised)
    pair.go_on(first, second)
    proceed = stop_processes(first)
    pair.takes_over(second)
    proceed()
    pair.wait(lambda: "this one waits as its standby" in first.text, "the fenced one to wait", first, second)
    assert re.search(f"supervisor: the driver failed: .*({FENCED}).*it is started again", first.text)
    pair.go_on(first, second)
    second.process.send_signal(signal.SIGTERM)  # as before a host is started again
    assert second.wait() == 0, second.text
    pair.go_on(first)
    assert "takes over `numbers`: it was stopped" in first.text
    pair.finish(first)


@deep
def test_a_standby_takes_over_on_a_cluster_from_a_host_that_is_gone(pair_on_cluster):
    pair = pair_on_cluster
    _, second = pair.run_beside()
    pair.hosts.kill_host("alpha")
    pair.go_on(second)
    pair.finish(second)


@deep
def test_a_standby_takes_over_on_a_cluster_from_a_host_that_is_cut_off(pair_on_cluster):
    """The host reaches no folder either: here all see one disk, so its driver is stopped meanwhile."""
    pair = pair_on_cluster
    first, second = pair.run_beside()
    pair.hosts.cut("alpha")
    proceed = stop_processes(first)
    pair.takes_over(second)
    pair.go_on(second)
    pair.hosts.mend("alpha")
    proceed()
    is_fenced(pair, first)
    pair.go_on(second)
    pair.finish(second)
