"""Applications in a store: who has a name, who lives, and what damaged and foreign entries are."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.api.errors import ApplicationKilledError, NameTakenError, RidgelineError
from ridgeline.engine.files.folder_lock import FolderInUseError, FolderLock, break_lock
from ridgeline.service.registry import Entry
from ridgeline.service.store import folder as folder_module
from ridgeline.service.store import presence as presence_module
from ridgeline.service.store.folder import EntryFolder
from ridgeline.service.store.presence import Presence
from ridgeline.service.store.standing import standings
from ridgeline.testing import SteppingClock
from support.waiting import wait_until

_CLAIM = """
import sys
from ridgeline.api.errors import NameTakenError
from ridgeline.service.store.presence import Presence
presence = Presence(sys.argv[1], "one", "one", "local", print)
sys.stdin.readline()
try:
    presence.claim("somewhere")
    print("got it", flush=True)
except NameTakenError as error:
    print("refused", error, flush=True)
sys.stdin.readline()
"""

_LOCK = """
import signal, sys
from ridgeline.engine.files.folder_lock import FolderLock
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
lock = FolderLock(sys.argv[1])
print("locked", flush=True)
signal.sigwait({signal.SIGUSR1})
print("broken" if lock.is_broken else "held", flush=True)
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(presence_module, "BEAT_SECONDS", 0.05)
    (tmp_path / "store").mkdir()
    return str(tmp_path / "store")


def place(store, name):
    return Path(store, ".ridgeline", "applications", f"{name}.json")


def entry(name, **more):
    return replace(Entry("ab-1", name, application=name, start=1, host="elsewhere"), **more)


def states(store):
    folder = EntryFolder(store)
    return {one.found.name: one.state for one in standings(folder, folder.entries(), {})}


@pytest.fixture
def presence(store):
    made = []

    def make(name="one", warn=print):
        made.append(Presence(store, name, name, "local", warn))
        return made[-1]

    yield make
    for one in made:
        one.end("the test is over", failed=False)


def claimer(store):
    return subprocess.Popen(
        [sys.executable, "-c", _CLAIM, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_a_killed_driver_is_dead_and_its_name_is_free(store, presence):
    first = claimer(store)
    first.stdin.write("go\n")
    first.stdin.flush()
    assert first.stdout.readline() == "got it\n"
    assert states(store) == {"one": "starting"}
    with pytest.raises(NameTakenError, match=rf"`one` is starting already: process {first.pid} on"):
        presence().claim("x")
    first.kill()
    first.communicate()
    assert states(store) == {"one": "dead"}
    presence().claim("x")
    assert EntryFolder(store).read("one").entry.start == 2


def test_after_a_quick_reboot_the_driver_of_before_keeps_no_one_waiting_for_long(store, presence):
    """Its process cannot be looked at: by its boot id it is of another machine of that name."""
    folder = EntryFolder(store)
    folder.write(entry("one", host=socket.gethostname(), pid=1, process="other-boot:1"))
    at = time.time() - 7
    os.utime(place(store, "one"), (at, at))
    presence().claim("x")
    assert folder.read("one").entry.start == 2

    made = entry("two", host=socket.gethostname(), pid=1, process="other-boot:1")
    folder.write(made)

    class Beats(SteppingClock):
        """The driver that has the name gives a sign of life meanwhile."""

        def wait(self, seconds, stop=None):
            at = time.time() + seconds
            folder.write(made)
            os.utime(place(store, "two"), (at, at))
            return super().wait(seconds, stop)

    waiting = presence("two")
    waiting._clock = Beats()
    with pytest.raises(NameTakenError, match=r"`two` runs already: process 1 on"):
        waiting.claim("x")


def attempt(store, monkeypatch, number, warn=print):
    """A driver that YARN has started, as an attempt of its application of this number."""
    monkeypatch.setenv("CONTAINER_ID", f"container_e17_1_{number}_02_000001")
    return Presence(store, "one", "one", "yarn", warn)


def test_the_next_attempt_of_yarn_takes_over_at_once_and_no_other_driver_does(store, monkeypatch):
    folder = EntryFolder(store)
    folder.write(entry("one", cluster_id="application_1_2", host="node1", pid=7, process="a:7"))
    with pytest.raises(NameTakenError, match="`one` runs already: process 7 on `node1`"):
        attempt(store, monkeypatch, 3).claim("x")
    second = attempt(store, monkeypatch, 2)
    second.claim("x")
    second.running("ab-2", None)
    assert (folder.read("one").entry.start, folder.read("one").entry.cluster_id) == (2, "application_1_2")
    monkeypatch.setattr("ridgeline.service.registry.process_identity", lambda _: "of another attempt")
    with pytest.raises(NameTakenError, match="`one` runs already"):
        attempt(store, monkeypatch, 3).claim("x")
    third = attempt(store, monkeypatch, 2)
    third.claim("x")  # the other may write at the same moment, once
    wait_until(lambda: folder.read("one").entry.start == 3, "the entry of the later one")
    second.end("it was fenced off", failed=True)
    assert folder.read("one").entry.state == "starting"
    third.end("the test is over", failed=False)


def test_the_next_attempt_of_yarn_takes_the_lock_of_a_driver_that_lives_on(store, monkeypatch, tmp_path):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    lock = subprocess.Popen([sys.executable, "-c", _LOCK, str(folder)], stdout=subprocess.PIPE, text=True)
    assert lock.stdout.readline() == "locked\n"
    old = entry("one", pid=lock.pid, host=socket.gethostname(), cluster_id="application_1_2")
    EntryFolder(store).write(old)
    with pytest.raises(FolderInUseError):
        FolderLock(str(folder))
    said = []
    taking = attempt(store, monkeypatch, 2, said.append)
    taking.before_spark(str(folder))
    assert re.search(rf"the process {lock.pid} on `.*` holds the checkpoint still, so it is fenced", *said)
    ours = FolderLock(str(folder))
    assert not ours.is_broken
    os.kill(lock.pid, signal.SIGUSR1)
    assert lock.stdout.readline() == "broken\n"
    ours.release()
    taking.end("the test is over", failed=False)
    lock.communicate()


def test_the_next_attempt_of_yarn_does_not_continue_what_a_user_has_ended(store, monkeypatch):
    ended = entry("one", cluster_id="application_1_2", state="failed", reason="killed by ann", final=True)
    EntryFolder(store).write(ended)
    with pytest.raises(ApplicationKilledError, match=r"`one` was ended \(killed by ann\), so this attempt"):
        attempt(store, monkeypatch, 2).claim("x")
    other = attempt(store, monkeypatch, 3)  # a new submission does
    other.claim("x")
    other.end("the test is over", failed=False)


def test_only_the_lock_of_the_driver_that_was_seen_is_removed(tmp_path):
    held = FolderLock(str(tmp_path))
    own = os.getpid(), socket.gethostname()
    assert not break_lock(str(tmp_path), own[0] + 1, own[1])
    assert not break_lock(str(tmp_path), own[0], "elsewhere")
    assert not held.is_broken
    held.release()
    (tmp_path / "lock").write_text(f"process {own[0]} on {own[1]}\n")
    assert not break_lock(str(tmp_path), *own)  # nobody holds it
    assert not break_lock(str(tmp_path / "nowhere"), *own)


def test_a_driver_whose_name_was_taken_is_to_end(store, presence, tmp_path):
    first, later = presence(), Presence(store, "one", "one", "local", print)
    lost = threading.Event()
    first.on_lost = lost.set
    first.claim("here")
    folder = EntryFolder(store)
    before = folder.read("one").entry
    folder.write(replace(before, start=2, host="elsewhere", pid=9, process="other"))
    assert lost.wait(60)
    assert first.lost.startswith("`one` was taken over by the process 9 on `elsewhere`; this driver stops")
    first.end("it was stopped", failed=False)
    assert folder.read("one").entry.pid == 9
    later.end("never begun", failed=False)


def test_a_driver_has_its_name_again_if_a_later_one_fails_before_it_takes_the_checkpoint(store, presence):
    first, folder = presence(), EntryFolder(store)
    first.claim("here")
    first.running("ab-1", None)
    folder.write(replace(folder.read("one").entry, start=2, state="failed", id="", pid=9, process="other"))
    wait_until(lambda: folder.read("one").entry.pid == os.getpid(), "its entry")
    now = folder.read("one").entry
    assert (now.state, now.start, first.lost) == ("running", 2, "")


@pytest.mark.parametrize("other", ["here", "there"])
def test_of_two_drivers_that_take_a_name_at_once_that_one_has_it_which_gets_the_checkpoint(
    store, presence, monkeypatch, other
):
    warnings = []
    first, second = presence(), presence(warn=warnings.append)
    first.claim("here")
    with monkeypatch.context() as blind:  # neither sees the other
        blind.setattr(EntryFolder, "read", lambda *_: None)
        second._entry = replace(second._entry, process="another", started=second._entry.started - 1)
        second.claim(other)
    if other == "there":
        second.running("cd-1", None)
    first.running("ab-1", None)
    if other == "here":
        wait_until(lambda: second.lost, "the end of the other one")
        assert "`one` was taken over by the process" in second.lost
    else:
        wait_until(lambda: warnings, "word of it")
        assert "on another checkpoint; the application runs on without a name" in warnings[0]
    assert first.lost == ""
    assert EntryFolder(store).read("one").entry.run == "ab"


def test_a_run_that_has_ended_says_how(store, presence):
    mine = presence()
    mine.claim("x")
    mine.running("ab-3", None)
    assert states(store) == {"one": "running"}
    mine.end("window 3 failed: password=hunter2", failed=True)
    (found,) = EntryFolder(store).entries()
    assert (found.entry.state, found.entry.id) == ("failed", "ab-3")
    assert "hunter2" not in place(store, "one").read_text()


def test_heartbeats_of_another_host_count_by_the_clock_of_the_store(store):
    """A driver whose clock is an hour off lives; one whose heartbeats have stopped is dead."""
    folder, now = EntryFolder(store), time.time()
    for name, heartbeat, written in (
        ("ahead", now + 3600, now),
        ("behind", now - 3600, now),
        ("gone", now, now - 60),
    ):
        folder.write(entry(name, heartbeat=heartbeat))
        os.utime(place(store, name), (written, written))
    assert states(store) == {"ahead": "running", "behind": "running", "gone": "dead"}


def test_this_machine_with_a_wrong_clock_takes_nobody_for_dead(store, monkeypatch):
    EntryFolder(store).write(entry("one"))
    monkeypatch.setattr("ridgeline.api.clock.time.time", lambda: 3600 + time.time_ns() / 1e9)
    assert states(store) == {"one": "running"}


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"name": "one"}', "[]", '"x"', "\0" * 1000, '{"name":"two","application":"x","start":1,'],
)
def test_a_damaged_entry_is_said_and_replaced(store, presence, text, monkeypatch):
    monkeypatch.setattr("ridgeline.service.store.presence._PATIENCE_SECONDS", 0.01)
    EntryFolder(store).write(entry("other", state="ended", reason="done"))
    place(store, "one").write_text(text)
    assert states(store) == {"one": "damaged", "other": "ended"}
    warnings = []
    presence(warn=warnings.append).claim("x")
    assert "the entry of `one` in the store is replaced: the entry is damaged" in warnings[0]
    assert states(store) == {"one": "starting", "other": "ended"}


def test_an_entry_that_others_can_write_is_not_believed(store, presence):
    EntryFolder(store).write(entry("one", url="http://127.0.0.1:9"))
    place(store, "one").chmod(0o666)
    (found,) = EntryFolder(store).entries()
    assert found.entry is None
    assert "can be written by others" in found.fault
    assert states(store) == {"one": "foreign"}
    with pytest.raises(NameTakenError, match=r"the name `one` is taken in this store: .* others"):
        presence().claim("x")


def test_a_store_that_is_gone_for_a_while_ends_nothing(store, presence):
    warnings = []
    mine = presence(warn=warnings.append)
    mine.claim("x")
    mine.running("ab-1", None)
    Path(store).rename(f"{store}-away")
    Path(store).write_text("a file")
    wait_until(lambda: warnings, "a warning")
    assert "; the application runs on, and `ridgeline ps` may take it for dead" in warnings[0]
    Path(store).unlink()
    Path(f"{store}-away").rename(store)
    wait_until(lambda: len(warnings) > 1, "the good news")
    assert warnings[1:] == ["the store has the entry of `one` again"]
    assert states(store) == {"one": "running"}


@pytest.mark.parametrize("name", ["", ".x", "a/b", "../x", "a b", "é", "x" * 201, "a\n"])
def test_names_that_are_no_file_are_refused(store, name):
    with pytest.raises(RidgelineError, match="cannot be the name of an application in a store"):
        Presence(store, name, "x", "local", print)


def test_a_store_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(RidgelineError, match=r"there is no folder .*; give the `--store`"):
        EntryFolder(str(tmp_path / "none")).entries()


def test_an_entry_is_read_while_it_is_replaced(store, monkeypatch):
    monkeypatch.setattr(folder_module, "is_local", lambda _uri: False)
    folder = EntryFolder(store)
    folder.write(entry("one"))
    path = place(store, "one")
    beside = path.with_name(".one.json.0123")
    for read in (lambda: folder.read("one"), lambda: folder.entries()[0]):
        path.rename(beside)
        back = threading.Timer(0.2, beside.rename, (path,))
        back.start()
        assert read().entry == entry("one")
        back.join()
    path.unlink()
    assert folder.read("one") is None
    assert folder.entries() == []
