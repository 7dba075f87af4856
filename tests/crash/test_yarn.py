"""A real YARN: executors of one core that come one after the other, executors that are killed, submit."""

import json
import os
import re
import signal
import sys
from functools import partial

import pytest

from ridgeline.cli.load import load_application
from ridgeline.service.registry import process_identity
from ridgeline.testing import run_local
from support.accounts.reports import finished
from support.crash.processes import committed, parent
from support.crash.rows import Reader, multisets
from support.crash.yarn import SOURCES, Yarn
from support.depth import deeper
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"
PROPERTIES = ("numbers.windows=1000000", "sums.pause_seconds=0.05", "store.roll_seconds=0.3")
OPTIONS = [
    *(part for value in PROPERTIES for part in ("-D", value)),
    *(
        part
        for name in ("numbers", "sums", "store")
        for part in ("--attribute", f"{name}.recovery_attempts=0")
    ),
    *("--log-level", "INFO"),
]
FIXED = {"spark.executor.instances": "3"}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "4",
}


@pytest.fixture(scope="module")
def yarn(tmp_path_factory):
    with Yarn(tmp_path_factory.mktemp("yarn")) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("settings", "slots"),
    [pytest.param(FIXED, 2, id="fixed", marks=deeper), pytest.param(DYNAMIC, 3, id="dynamic")],
)
def test_executors_that_are_killed_are_replaced(yarn, start, wait_until, tmp_path, settings, slots):
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    places = ("--output", output, "--checkpoint", checkpoint)
    reader = Reader(output, checkpoint)
    reader.start()
    driver = start(APPLICATION, *places, *yarn.settings, *OPTIONS, *conf, **yarn.environment)

    def wait(condition, what):
        wait_until(lambda: condition() or driver.exit_code is not None, what)
        assert driver.exit_code is None, driver.text

    def goes_on():
        before = committed(checkpoint)
        wait(lambda: committed(checkpoint) >= before + 10, "ten windows more")

    def all_there():
        sizes = re.findall(r"containers (?:live in|are spread over) (\d) slots?", driver.text)
        return bool(sizes) and int(sizes[-1]) == slots

    def is_lost(before):
        return len(re.findall(r"event_lines: slot \d is lost", driver.text)) > before

    wait(all_there, "as many slots as there are cores for")
    goes_on()
    for before in range(2):
        pid = int(re.findall(r"slot 0 is there(?: again)?: process (\d+) on", driver.text)[-1])
        os.kill(parent(parent(pid)), signal.SIGKILL)  # behind Spark's Python daemon: its executor
        wait(partial(is_lost, before), "a lost slot")
        goes_on()
        wait(all_there, "as many slots as before")
    driver.process.send_signal(signal.SIGTERM)
    assert driver.wait() == 0, driver.text
    reader.finish()

    windows = committed(checkpoint) + 1
    run_local(
        load_application(str(APPLICATION), ["--output", str(tmp_path / "whole")]),
        properties={"numbers.windows": str(windows)},
    )
    assert multisets(output) == multisets(tmp_path / "whole")


@pytest.fixture
def command(yarn, tmp_path):
    """`command("ps")`: what a command prints, with the cluster and a store in its environment.

    `home`: of the user who calls it, who else knows the applications of this host.
    """
    environment = {**os.environ, **yarn.environment, "PYTHONPATH": str(SOURCES)}
    environment |= {"RIDGELINE_STORE": str(tmp_path / "store")}

    def call(*words, home="home"):
        variables = {**environment, "RIDGELINE_HOME": str(tmp_path / home)}
        done = finished([sys.executable, "-m", "ridgeline", *words], env=variables, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    return call


@pytest.fixture
def entry(tmp_path):
    """`entry()`: what the store says of the application. A driver that a failed test leaves is killed."""
    path = tmp_path / "store" / ".ridgeline" / "applications" / "sums.json"

    def read():
        return json.loads(path.read_text())

    yield read
    found = read() if path.exists() else {"pid": 0, "process": "", "supervisor": None}
    for one in (found["supervisor"] or {}, found):
        if one and process_identity(one["pid"]) == one["process"]:
            os.kill(one["pid"], signal.SIGKILL)


def test_submit_on_yarn_is_found_ended_and_continued_by_its_name(yarn, command, entry, wait_until, tmp_path):
    checkpoint, output = tmp_path / "store" / "sums", tmp_path / "output"
    conf = [part for name, value in FIXED.items() for part in ("--conf", f"{name}={value}")]
    words = ["submit", str(APPLICATION), "--name", "sums", *yarn.settings, *OPTIONS, *conf]
    out = command(*words, "--supervise", "--output", str(output))
    found = entry()
    assert re.search(rf"sums runs: run {found['run']}-1, at http://", out)
    assert re.fullmatch(r"application_\d+_\d+", found["cluster_id"])
    assert (found["state"], found["master"]) == ("running", "yarn")
    assert yarn.state(found["cluster_id"]) == ("RUNNING", "UNDEFINED")
    (row,) = json.loads(command("ps", "--json"))["apps"]
    assert (row["name"], row["state"], row["cluster_id"]) == ("sums", "running", found["cluster_id"])
    wait_until(lambda: committed(checkpoint) >= 5, "windows")
    command("logs", "sums")
    assert command("stop", "sums") == "sums has ended\n"
    assert entry()["reason"] == "it was stopped"
    assert process_identity(found["supervisor"]["pid"]) is None
    wait_until(lambda: yarn.state(found["cluster_id"]) == ("FINISHED", "SUCCEEDED"), "YARN's word of it")

    before = committed(checkpoint)
    command(*words, "--output", str(output))
    found = entry()
    assert found["epoch"] == 2
    wait_until(lambda: committed(checkpoint) > before + 5, "more windows")
    os.kill(found["pid"], signal.SIGSTOP)  # it answers no one, and is on a host that cannot be reached
    path = tmp_path / "store" / ".ridgeline" / "applications" / "sums.json"
    path.write_text(json.dumps({**found, "host": "elsewhere"}))
    assert command("kill", "sums", "--yes", home="far") == f"YARN has ended {found['cluster_id']}\n"
    wait_until(lambda: yarn.state(found["cluster_id"]) == ("KILLED", "KILLED"), "YARN's word of it")
    assert re.fullmatch(r"killed by \S+@\S+", entry()["reason"])
    os.kill(found["pid"], signal.SIGCONT)  # without its cluster it ends by itself
    wait_until(lambda: process_identity(found["pid"]) is None, "the end of the driver")

    run_local(
        load_application(str(APPLICATION), ["--output", str(tmp_path / "whole")]),
        properties={"numbers.windows": str(committed(checkpoint) + 1)},
    )
    whole, shown = multisets(tmp_path / "whole"), multisets(output)
    assert shown.keys() == whole.keys()
    assert all(shown[name] <= whole[name] for name in whole)  # the next start publishes what was staged
