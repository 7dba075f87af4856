"""A driver on one host, its standbys on others: it dies, stands still or is cut off, and one takes over."""

import re
import signal

import pytest

from ridgeline.service.store.folder import EntryFolder
from ridgeline.testing import services
from ridgeline.testing.services.fixtures import ready
from support.crash.hosts import Hosts
from support.crash.pairs import (
    HOLDS,
    SECONDS,
    WAITS,
    OnHost,
    on_cluster,
    on_folder,
    on_s3,
    stop_processes,
)
from support.crash.regional_rows import all_go_on, check_rows, progress
from support.depth import deeper
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]
REGIONAL = SUPPORT / "crash" / "regional.py"
FENCED = r"was taken over by|has lost its `lock`|was committed to `.*` by another driver"


@pytest.fixture
def pair(tmp_path, wait_until):
    with on_folder(tmp_path, wait_until) as made:
        yield made


@pytest.fixture(params=[services.moto, pytest.param(services.seaweedfs, marks=deeper)])
def pair_on_s3(request, tmp_path, wait_until):
    with on_s3(tmp_path, wait_until, ready(request.param)) as made:
        yield made


@pytest.fixture
def pair_on_cluster(request, tmp_path, wait_until):
    with on_cluster(tmp_path, wait_until, **getattr(request, "param", {})) as made:
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


@deeper
def test_of_two_supervisors_of_one_name_one_ends_as_its_driver_is_refused(pair_on_s3):
    pair = pair_on_s3
    both = [pair.start(name, "--supervise") for name in ("alpha", "beta")]
    pair.wait(lambda: any(one.exit_code is not None for one in both), "the end of one")
    second, first = sorted(both, key=lambda one: one.exit_code is None)
    assert second.exit_code == 2, second.text
    assert re.search(r"`numbers` (runs|is starting|is being started) ", second.text)
    assert "it is not started again: another start would end in the same way" in second.text
    pair.reader.start()
    pair.go_on(first)
    pair.finish(first)


@deeper
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


@deeper
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


@deeper
def test_a_standby_takes_over_all_regions_of_an_application(tmp_path, wait_until):
    store, output = tmp_path / "store", tmp_path / "output"
    store.mkdir()
    output.mkdir()
    checkpoint = EntryFolder(str(store)).checkpoint("regional")
    words = [REGIONAL, "--output", output, "--store", store, "--store-name", "regional"]
    with Hosts(tmp_path, ["alpha", "beta"]) as hosts:

        def start(name, *more):
            given = map(str, [*words, "--master", "local[4]", *more])
            return OnHost(hosts, name, given, tmp_path / f"{name}.log")

        first = start("alpha")
        wait_until(lambda: all_go_on(checkpoint, 5), "windows of all regions", seconds=SECONDS)
        second = start("beta", "--standby", "--take-over-after", "12s")
        wait_until(lambda: WAITS in second.text, "the standby", seconds=SECONDS)
        hosts.kill_host("alpha")
        before = progress(checkpoint)

        def all_went_on():
            return all(now > last + 2 for now, last in zip(progress(checkpoint), before, strict=True))

        wait_until(all_went_on, "windows of all regions", seconds=SECONDS)
        (output / "enough").touch()
        assert second.wait() == 0, second.text
        assert first.exit_code is not None
        assert check_rows(output) > 0


@deeper
def test_a_standby_takes_over_on_a_cluster_from_a_host_that_is_gone(pair_on_cluster):
    pair = pair_on_cluster
    _, second = pair.run_beside()
    pair.hosts.kill_host("alpha")
    pair.go_on(second)
    pair.finish(second)
    assert second.text.count("it holds 3 cores of the cluster") == 1


@deeper
def test_of_two_standbys_on_a_cluster_the_one_that_holds_cores_takes_over(pair_on_cluster):
    pair = pair_on_cluster
    first = pair.run("alpha")
    pair.reader.start()
    warm = pair.standby("beta")
    cold = pair.standby("delta", says="the cluster has 0 of 3 cores free for it")
    pair.go_on(first, warm, cold)
    pair.hosts.kill_host("alpha")
    assert pair.takes_over(warm, cold) is warm
    pair.go_on(warm, cold)
    pair.call("beta", "stop", "numbers", "--store", pair.store)
    assert (warm.wait(), cold.wait()) == (0, 0), warm.text + cold.text
    pair.finish()


@deeper
@pytest.mark.parametrize(
    ("pair_on_cluster", "says"),
    [
        ({"cores": 5}, "the cluster has 2 of 3 cores free for it, so its executors start when it takes over"),
        ({"limited": False}, "`spark.cores.max` is not given, so its executors start when it takes over"),
    ],
    indirect=["pair_on_cluster"],
)
def test_a_standby_without_free_cores_says_so_and_takes_over(pair_on_cluster, says):
    pair = pair_on_cluster
    first = pair.run("alpha")
    pair.reader.start()
    second = pair.standby("beta", says=says)
    pair.go_on(first, second)
    pair.hosts.kill_host("alpha")
    pair.go_on(second)
    pair.finish(second)


@deeper
@pytest.mark.parametrize("pair_on_cluster", [{"cores": 3}], indirect=True)
def test_a_standby_gives_its_cores_back_to_a_driver_that_has_lost_some(pair_on_cluster):
    pair = pair_on_cluster
    pair.hosts.start_worker("delta", cores=3)
    pair.wait(lambda: pair.hosts.text("master").count("Registering worker") == 2, "the second worker")
    first = pair.run("alpha")
    pair.reader.start()
    second = pair.standby("beta", says=HOLDS)
    pair.go_on(first, second)
    pair.hosts.kill_host("delta")  # with executors of both
    given = "the driver that runs lacks cores, so its executors are given back"
    pair.wait(lambda: given in second.text, "the cores", first, second)
    pair.go_on(first, second)
    folder = EntryFolder(pair.store)
    pair.wait(lambda: not folder.read("numbers").entry.short, "as many cores as before", first, second)
    pair.hosts.kill_host("alpha")
    pair.go_on(second)
    pair.finish(second)


@deeper
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
