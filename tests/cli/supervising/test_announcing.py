"""A supervised application stands somewhere between two drivers, too: on this machine and in its store."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.api.errors import NameTakenError
from ridgeline.cli.supervising.announcing import Announcer
from ridgeline.cli.supervising.link import NAMED, WAITS
from ridgeline.service import registry, supervised
from ridgeline.service.store.entry import StoreEntry, StoreSupervisor
from ridgeline.service.store.folder import EntryFolder
from ridgeline.service.store.presence import Presence, is_end_asked
from ridgeline.service.store.standing import standing
from support.waiting import wait_until


class Ends:
    """What an announcer ends: it keeps the signals."""

    def __init__(self):
        self.got = []

    def end(self, number):
        self.got.append(number)


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return str(tmp_path / "store")


@pytest.fixture
def said():
    return []


@pytest.fixture
def ends():
    return Ends()


@pytest.fixture
def announce(ends, said):
    """`announce("one", store)`: an announcer of this process, as a supervisor."""
    made = []

    def make(name, store=None):
        one = Announcer(ends, said.append)
        one.report({"what": NAMED, "name": name, "checkpoint": "state", "store": store})
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()


@pytest.fixture
def process():
    """A process that sleeps, as a driver or supervisor that does not answer."""
    with subprocess.Popen(["sleep", "600"]) as started:
        yield started
        started.kill()


def own():
    return StoreSupervisor(os.getpid(), registry.process_identity(os.getpid()))


def entry(**more):
    """The entry that a driver of this process has left, which was killed."""
    made = StoreEntry("one", "one", 1, "running", run="ab", epoch=1, host=socket.gethostname())
    gone = f"{own().process.partition(':')[0]}:1"  # started in the first tick of this machine
    return replace(made, pid=2**22 + 1, process=gone, supervisor=own(), **more)


def how(store):
    folder = EntryFolder(store)
    return standing(folder, folder.read("one"))


def row(ridgeline_command, *words):
    done = ridgeline_command("ps", "--json", *words)
    assert done.exit_code == 0, done.stderr
    (found,) = json.loads(done.stdout)["apps"]
    return found


def test_in_the_pause_ps_says_when_it_restarts_and_why(announce, ridgeline_command):
    one = announce('a "name" ] \x1b[31m')
    one.started(2**22 + 1, 2)
    found = row(ridgeline_command)
    assert found["state"] == "starting"
    assert found["sentence"].startswith("its driver, process 4194305, starts (attempt 2)")
    one.report({"what": WAITS})
    found = row(ridgeline_command, "--running")
    assert (found["state"], found["sentence"]) == (
        "standby",
        "its driver, process 4194305, waits as a standby",
    )
    one.restarting(30.0, "was killed by SIGKILL")
    found = row(ridgeline_command)
    assert found["state"] == "restarting"
    assert found["sentence"].startswith(("restarts in 30.0 s ", "restarts in 2"))
    assert found["sentence"].endswith(" s (attempt 3), after: was killed by SIGKILL")
    assert "\x1b" not in ridgeline_command("ps").stdout
    done = ridgeline_command("status", 'a "name" ] \x1b[31m')
    assert done.exit_code == 2
    assert "cannot be asked now: restarts in " in done.stderr
    one.close()
    assert "there is no application" in ridgeline_command("ps").stdout


def test_in_the_pause_the_store_says_so_and_the_name_is_taken_for_all_but_the_next_driver(announce, store):
    EntryFolder(store).write(entry())
    assert how(store).state == "restarting"  # also before its supervisor has noticed
    one = announce("one", store)
    one.restarting(30.0, "failed: password=hunter2")
    wait_until(lambda: how(store).found.entry.state == "failed", "the entry")
    now = how(store)
    assert (now.state, now.lives) == ("restarting", True)
    assert now.words.endswith("(attempt 1), after: failed: password=***")
    with pytest.raises(
        NameTakenError, match=r"`one` is under a supervisor already, process \d+ on .* restarts"
    ):
        Presence(store, "one", "one", "local", print).claim("x")
    follower = Presence(store, "one", "one", "local", print, supervisor=os.getpid())
    with one.quiet():
        follower.claim("x")
        one.started(os.getpid(), 1)
    assert (how(store).state, how(store).found.entry.start) == ("starting", 2)
    follower.end("the test is over", failed=False)
    one.close()
    assert how(store).state == "ended"


def test_until_the_next_driver_has_the_name_its_supervisor_writes_that_it_comes(announce, store):
    folder = EntryFolder(store)
    folder.write(entry())
    one = announce("one", store)
    one.restarting(0.0, "was killed by SIGKILL")
    wait_until(lambda: how(store).found.entry.state == "failed", "the entry")
    one.started(os.getpid(), 1)
    before = how(store).found.entry
    wait_until(lambda: how(store).found.entry.heartbeat > before.heartbeat, "a heartbeat")
    now = how(store).found.entry
    assert replace(now, heartbeat=before.heartbeat) == before
    follower = Presence(store, "one", "one", "local", print, supervisor=os.getpid())
    follower.claim("x")
    begun = now.heartbeat
    wait_until(lambda: how(store).found.entry.heartbeat > begun + 4.0, "heartbeats of the driver")
    assert (how(store).state, how(store).found.entry.start) == ("starting", 2)
    follower.end("the test is over", failed=False)


def test_a_stop_that_is_refused_leaves_no_word_for_standbys(store, tmp_path, environment):
    """Another user's process may not be signalled: its standbys are to take over still."""
    if os.getuid() or not shutil.which("setpriv"):
        pytest.skip("needs root, to be two users")
    weak = ["setpriv", "--bounding-set=-kill"]  # root that may not signal others' processes
    with subprocess.Popen(["sleep", "600"], user=65534) as others:
        identity = registry.process_identity(others.pid)
        held = replace(entry(), pid=others.pid, process=identity, supervisor=None)
        EntryFolder(store).write(held)
        for words in (["stop", "one"], ["kill", "one", "--yes"]):
            command = [*weak, sys.executable, "-m", "ridgeline", *words, "--store", store]
            done = subprocess.run(
                command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert f"the process {others.pid} is another user's; ask " in done.stderr
            assert done.returncode == 2
            assert not is_end_asked(EntryFolder(store), held)
        assert others.poll() is None
        others.kill()


def test_a_supervisor_that_is_gone_restarts_nothing(store, ridgeline_command):
    above = replace(own(), process="gone:1", attempt=1, restart_in=60.0)
    for host, words in ((socket.gethostname(), "is gone"), ("elsewhere", "has written nothing for 6")):
        EntryFolder(store).write(
            replace(entry(), state="failed", reason="was killed", supervisor=above, host=host)
        )
        path = Path(store, ".ridgeline", "applications", "one.json")
        os.utime(path, (path.stat().st_mtime - 60,) * 2)
        if host == "elsewhere":
            assert (how(store).state, words in how(store).words) == ("dead", True), how(store)
            Presence(store, "one", "one", "local", print).claim("x")
            return
        # by its boot id it is another machine of that name, whose heartbeats count
        assert how(store).state == "dead"
        done = ridgeline_command("stop", "one", "--store", store)
        assert done.exit_code == 2
        assert "`one` does not run, it is dead" in done.stderr


def test_records_of_before_a_reboot_and_of_reused_ids_are_removed_and_no_process_is_hit(
    process, ridgeline_command, store
):
    for number, identity in enumerate(("other-boot:1", "", "x" * 500)):
        record = supervised.Supervised(
            process.pid + number * 0,
            identity,
            socket.gethostname(),
            "me",
            1.0,
            name="one",
            state="restarting",
        )
        supervised.keep(record)
        for words in (("stop", "one"), ("kill", "one", "--yes")):
            assert ridgeline_command(*words).exit_code == 2
        above = StoreSupervisor(process.pid, identity, attempt=1, restart_in=60.0)
        for state in ("failed", "running"):
            made = replace(entry(), state=state, supervisor=above, pid=process.pid, process=identity)
            EntryFolder(store).write(made)
            path = Path(store, ".ridgeline", "applications", "one.json")
            os.utime(path, (path.stat().st_mtime - 60,) * 2)
            for words in (("stop", "one"), ("kill", "one", "--yes")):
                assert ridgeline_command(*words, "--store", store).exit_code == 2
    assert process.poll() is None
    assert not list(Path(os.environ["RIDGELINE_HOME"]).glob("applications/supervisors/*"))
    damaged = Path(os.environ["RIDGELINE_HOME"], "applications", "supervisors", "supervisor-1.json")
    damaged.write_text('{"pid": ')
    assert supervised.supervised() == []
    assert not damaged.exists()


def test_a_signal_reaches_the_process_that_was_meant_alone(process):
    identity = registry.process_identity(process.pid)
    assert not registry.send_signal(process.pid, "other-boot:1", signal.SIGKILL)
    assert not registry.send_signal(process.pid, "", signal.SIGKILL)
    assert not registry.send_signal(0, "", signal.SIGKILL)
    assert not registry.send_signal(10**30, identity, signal.SIGKILL)
    assert process.poll() is None
    assert registry.send_signal(process.pid, identity, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not registry.send_signal(process.pid, identity, signal.SIGKILL)


@pytest.mark.parametrize("what", ["stop", "kill"])
def test_another_host_ends_a_supervisor_by_a_word_in_the_store(
    announce, ends, said, process, store, ridgeline_command, monkeypatch, what
):
    EntryFolder(store).write(entry(address="http://127.0.0.1:9"))
    one = announce("one", store)
    one.started(process.pid, 0)

    def obeyed():
        """Be the rest of the supervisor: it has got a signal, and ends."""
        if not ends.got:
            return False
        one.over("ended", "it was stopped")
        one.close()
        return True

    here = socket.gethostname()
    word = {"pid": os.getpid(), "process": "other-boot:1", "word": "kill", "who": "somebody"}
    EntryFolder(store).write_word("one", word)  # meant for an earlier supervisor
    one.restarting(60.0, "was killed by SIGKILL")
    wait_until(lambda: how(store).found.entry.state == "failed", "the entry")
    assert ends.got == []
    monkeypatch.setattr(socket, "gethostname", lambda: "far")
    done = ridgeline_command(
        what, "one", "--store", store, "--no-wait", *(["--yes"] if what == "kill" else [])
    )
    assert done.exit_code == 0, done.stderr
    assert done.stdout == f"asked its supervisor, process {os.getpid()} on `{here}`, by a word in the store\n"
    monkeypatch.undo()
    wait_until(obeyed, "the supervisor's end")
    assert ends.got == [signal.SIGTERM]
    assert any(f"@far` asks in the store to {what} it" in text for text in said)
    assert how(store).state == ("ended" if what == "stop" else "failed")
    if what == "kill":
        assert process.wait() == -signal.SIGKILL
        assert "killed by " in how(store).words


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"word": "stop"', "[" * 100_000, '{"word": "stop", "pid": "x"}', "NONE", None],
    ids=["empty", "list", "cut", "deep", "other", "none", "writable"],
)
def test_a_word_that_is_damaged_or_of_others_ends_nothing(announce, ends, said, store, text):
    one = announce("one", store)
    word = {"word": "stop", "pid": os.getpid(), "process": own().process, "who": "me"}
    EntryFolder(store).write(entry())
    EntryFolder(store).write_word("one", word)
    path = Path(store, ".ridgeline", "words", "one.json")
    if text is None:
        path.chmod(0o666)
    elif text == "NONE":
        EntryFolder(store).write_word("one", {**word, "word": ["stop"]})
    else:
        path.write_text(text)
    one.restarting(60.0, "was killed by SIGKILL")  # which looks at the store at once
    wait_until(lambda: how(store).found.entry.state == "failed", "the entry")
    assert (ends.got, said) == ([], [])


def test_a_supervisor_on_another_host_that_reads_no_word_is_said(store, ridgeline_command):
    above = replace(own(), attempt=1, restart_in=60.0)
    EntryFolder(store).write(replace(entry(), state="failed", reason="x", supervisor=above, host="elsewhere"))
    done = ridgeline_command("stop", "one", "--store", store, "--timeout", "0.2")
    assert done.exit_code == 1
    assert (
        "after 0.2 s the supervisor has not read it, and may be gone; run `ridgeline kill one` on"
        in done.stderr
    )


def test_in_the_pause_the_store_says_who_restarts_it_and_not_a_file_that_a_driver_elsewhere_has_left(
    store, ridgeline_command
):
    """As in a home that two hosts share: files of the other host are not known to be old."""
    left = registry.own_entry(
        "ab-1", "one", "http://127.0.0.1:9", token=None, started=1.0, supervisor=os.getpid()
    )
    registry.register(replace(left, host="elsewhere"))
    above = replace(own(), attempt=1, restart_in=60.0)
    EntryFolder(store).write(replace(entry(), state="failed", reason="x", supervisor=above, host="elsewhere"))
    done = ridgeline_command("stop", "one", "--store", store, "--no-wait")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(f"asked its supervisor, process {os.getpid()} on `elsewhere`")


def test_a_store_that_is_gone_ends_no_supervisor(announce, said, store):
    EntryFolder(store).write(entry())
    one = announce("one", store)
    shutil.rmtree(store)
    Path(store).write_text("no folder")
    one.restarting(30.0, "was killed by SIGKILL")
    wait_until(lambda: said, "word of it")
    assert "the entry in the store cannot be written: the store `" in said[0]
    Path(store).unlink()
    EntryFolder(store).write(entry())
    wait_until(lambda: len(said) > 1, "word that it is there again")
    assert said[1:] == ["the entry in the store is written again"]
