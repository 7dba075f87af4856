"""Applications by name in a store: found, ended, killed and continued by the same command."""

import json
import os
import re
import signal

import pytest

from ridgeline.service.registry import process_identity
from support.crash.processes import committed
from support.paths import SUPPORT
from support.waiting import wait_until

TINY = SUPPORT / "cli" / "tiny.py"


@pytest.mark.spark
@pytest.mark.slow
def test_from_a_start_to_the_next_start_by_name(
    ridgeline_process, ridgeline_command, environment, tmp_path, monkeypatch
):
    (tmp_path / "store").mkdir()
    monkeypatch.setenv("RIDGELINE_STORE", str(tmp_path / "store"))
    environment["RIDGELINE_HOME"] = str(tmp_path / "ridgeline-home")
    words = ("run", str(TINY), "--count", "0", "--master", "local[2]", "--attribute", "window=50ms")
    words += ("--store", "store", "--store-name", "one", "-D", "total.path=totals.txt", "--quiet")

    def call(*given, code=0):
        done = ridgeline_command(*given)
        assert done.exit_code == code, (given, done.stdout, done.stderr)
        return done

    def row():
        (found,) = json.loads(call("ps", "--json").stdout)["apps"]
        return found

    def started(epoch):
        driver = ridgeline_process(*words)
        entry = tmp_path / "store" / ".ridgeline" / "applications" / "one.json"
        wait_until(lambda: driver.poll() is not None or entry.exists(), "its entry")
        wait_until(lambda: (row()["state"], row()["epoch"]) == ("running", epoch), "it", every=0.3)
        before = committed(tmp_path / "store" / "one")
        wait_until(lambda: committed(tmp_path / "store" / "one") > before, "a window more")
        return driver

    first = started(1)
    now = row()
    assert (now["name"], now["pid"], now["master"]) == ("one", first.pid, "local[2]")
    assert "token" not in (tmp_path / "store" / ".ridgeline" / "applications" / "one.json").read_text()
    second = ridgeline_process(*words)
    _, error = second.communicate()
    assert second.returncode == 3
    assert re.search(r"error: `one` runs already: process \d+ on `\S+`, run \w+-1, at http://", error)
    assert json.loads(call("get-app-info", "one", "--json").stdout)["name"] == "tiny"
    call("stop", "one")
    assert first.wait() == 0
    assert (row()["state"], row()["sentence"]) == ("ended", "it was stopped")
    assert "`one` does not run, it is ended: it was stopped;" in call("stop", "one", code=2).stderr

    second = started(2)
    os.kill(second.pid, signal.SIGKILL)
    second.wait()
    wait_until(lambda: row()["state"] == "dead", "word of its death", every=0.3)
    assert re.fullmatch(r"its process \d+ on `\S+` is gone", row()["sentence"])
    assert "`one` does not run, it is dead: its process" in call("logs", "one", code=2).stderr

    third = started(3)
    os.kill(third.pid, signal.SIGSTOP)  # it answers nobody
    assert "there is no terminal to ask at; give `--yes`" in call("kill", "one", code=2).stderr
    identity = process_identity(third.pid)
    assert re.match(r"the process \d+ got SIGKILL\none has ended\n", call("kill", "one", "--yes").stdout)
    assert process_identity(third.pid) != identity
    assert row()["state"] == "dead"
    numbers = [int(line.split()[0]) for line in (tmp_path / "totals.txt").read_text().splitlines()]
    assert sorted(set(numbers)) == list(range(max(numbers) + 1))


def test_who_is_not_there_is_said_and_one_that_listens_on_another_host_only_is_not_asked(
    ridgeline_command, tmp_path, monkeypatch
):
    """A loopback address is another machine here, which would get the token."""
    store = tmp_path / "store"
    assert "there is no folder" in ridgeline_command("ps", "--store", store).stderr
    store.mkdir()
    monkeypatch.setenv("RIDGELINE_STORE", str(store))
    assert ridgeline_command("ps").stdout == "there is no application in the store\n"
    assert "there is no application `one` in the store" in ridgeline_command("stop", "one").stderr
    wrong = ridgeline_command("run", TINY, "--from-window", "3").stderr
    assert "`--from-window` has no checkpoint to act on" in wrong  # `run` does not read RIDGELINE_STORE

    place = store / ".ridgeline" / "applications"
    place.mkdir(parents=True)
    made = {"id": "ab-1", "name": "one", "application": "one", "start": 1, "state": "running"}
    made |= {"host": "elsewhere", "url": "http://127.0.0.1:9", "cluster_id": "application_1_2"}
    (place / "one.json").write_text(json.dumps(made))
    for words in (("top", "one"), ("logs", "one"), ("get-app-info", "one")):
        done = ridgeline_command(*words)
        assert done.exit_code == 2
        assert "cannot be asked from here: its web service listens for `elsewhere` alone" in done.stderr
    done = ridgeline_command("kill", "one", "--yes")
    assert done.exit_code == 2
    for way in ("run the command there", "`yarn application -kill application_1_2`", "that fences it off"):
        assert way in done.stderr
