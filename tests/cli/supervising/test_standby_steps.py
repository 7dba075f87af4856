"""The step of a standby that follows from the entry of the driver that has the name."""

import os
import socket
from dataclasses import replace

import pytest

from ridgeline.api.errors import FencedError
from ridgeline.cli.supervising.link import judged
from ridgeline.cli.supervising.standby import Step, Watched
from ridgeline.service import registry
from ridgeline.service.store.entry import StoreEntry, StoreSupervisor
from ridgeline.service.store.folder import EntryFolder, Found
from ridgeline.service.store.presence import ask_end, is_end_asked
from ridgeline.service.store.standing import holder_there, process_there

ENTRY = StoreEntry("one", "one", 1, "running", epoch=1, host="elsewhere", pid=7, heartbeat=100.0)


def found(**changes):
    return Found("one", 0.0, replace(ENTRY, **changes))


def steps(watched, *looks):
    """The steps that follow from looks, each (seconds, entry)."""
    return [watched.next(entry, now) for now, entry in looks]


def test_a_heartbeat_that_stops_for_so_long_is_of_a_dead_driver():
    watched = Watched(7.0)
    looks = [(0.0, found()), (6.9, found()), (7.0, found(heartbeat=1.0)), (13.9, found(heartbeat=1.0))]
    assert steps(watched, *looks) == [Step.WAIT] * 4
    assert watched.next(found(heartbeat=1.0), 14.0) is Step.TAKE
    assert watched.why == "its heartbeat has stopped for 7 s"


def test_the_time_begins_again_when_the_store_could_not_be_read():
    watched = Watched(7.0)
    assert watched.next(found(), 0.0) is Step.WAIT
    watched.unread()
    assert steps(watched, (60.0, found()), (66.9, found()), (67.0, found())) == [
        Step.WAIT,
        Step.WAIT,
        Step.TAKE,
    ]


def test_an_answer_that_took_long_may_be_as_old_as_its_question():
    watched = Watched(7.0)
    assert watched.next(found(), 0.0, 30.0) is Step.WAIT
    assert watched.next(found(), 36.9, 60.0) is Step.WAIT
    assert watched.next(found(), 37.0, 60.0) is Step.TAKE


def test_an_entry_that_vanishes_is_waited_for_as_its_folder_may_not_be_mounted():
    watched = Watched(7.0)
    assert watched.next(found(), 0.0) is Step.WAIT
    assert watched.next(None, 60.0) is Step.WAIT
    assert watched.next(found(), 61.0) is Step.WAIT
    assert watched.next(found(), 68.0) is Step.TAKE


def test_a_process_of_this_host_that_is_gone_is_not_waited_for():
    watched = Watched(7.0)
    assert watched.next(found(), 0.0, there=True) is Step.WAIT
    assert watched.next(found(), 0.5, there=False) is Step.TAKE


@pytest.mark.parametrize(
    ("end", "step"),
    [
        ({"state": "ended", "reason": "it was stopped", "final": True}, Step.END),
        ({"state": "ended", "reason": "it was stopped"}, Step.TAKE),  # by a signal to that process
        ({"state": "failed", "reason": "killed by ann", "final": True}, Step.END),
        ({"state": "failed", "reason": "no space"}, Step.TAKE),
    ],
)
def test_an_end_that_a_user_asked_for_is_no_failure(end, step):
    watched = Watched(7.0)
    assert watched.next(found(), 0.0) is Step.WAIT
    assert watched.next(found(**end), 0.5) is step
    assert watched.why == end["reason"]


def test_a_driver_whose_supervisor_starts_the_next_one_is_waited_for_as_long_as_that_one_writes():
    watched = Watched(7.0)
    pause = {"state": "failed", "reason": "was killed", "supervisor": StoreSupervisor(6, "p", 1, 60.0)}
    assert steps(watched, (0.0, found(**pause)), (6.9, found(**pause, heartbeat=103.0))) == [Step.WAIT] * 2
    assert watched.next(found(**pause, heartbeat=103.0), 13.8) is Step.WAIT
    assert watched.next(found(**pause, heartbeat=103.0), 13.9) is Step.TAKE
    assert Watched(7.0).next(found(**pause), 0.0, there=False) is Step.TAKE
    ended = found(state="ended", reason="stopped before it was started again", final=True)
    assert watched.next(ended, 14.0) is Step.END


def test_on_one_host_the_supervisor_counts_where_its_driver_is_gone_but_not_for_its_next_driver():
    own = registry.process_identity(os.getpid())
    gone = f"{own.partition(':')[0]}:1"
    here = replace(ENTRY, host=socket.gethostname(), pid=2**22 + 1, process=gone)
    assert holder_there(here) is False
    above = replace(here, supervisor=StoreSupervisor(os.getpid(), own))
    assert (process_there(above), holder_there(above)) == (False, True)
    assert holder_there(replace(here, supervisor=StoreSupervisor(2**22 + 1, gone))) is False
    assert holder_there(replace(above, host="elsewhere")) is None


def test_who_ends_a_driver_ends_the_next_one_of_its_supervisor_too(tmp_path):
    folder, above = EntryFolder(str(tmp_path)), StoreSupervisor(6, "boot:1")
    between = replace(ENTRY, state="failed", supervisor=replace(above, attempt=1, restart_in=1.0))
    assert not is_end_asked(folder, between)
    ask_end(folder, between)
    following = replace(ENTRY, start=2, supervisor=above)  # was started before its supervisor heard of it
    assert is_end_asked(folder, between)
    assert is_end_asked(folder, following)
    for other in (
        {"supervisor": replace(above, process="boot:2")},
        {"host": "beyond"},
        {"supervisor": None},
    ):
        assert not is_end_asked(folder, replace(following, **other))


def test_a_standby_that_begins_after_an_end_starts_the_application():
    assert Watched(7.0).next(found(state="ended", final=True), 0.0) is Step.TAKE
    assert Watched(7.0).next(None, 0.0) is Step.TAKE


def test_a_driver_that_is_fenced_off_is_started_again_as_a_standby_only():
    assert not judged(FencedError("x"), begun=True)["again"]
    assert judged(FencedError("x"), begun=True, standby=True)["again"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--standby"], "`--standby` needs `--store URL`"),
        (["--standby", "--store", "s", "--take-over-after", "1s"], "`--take-over-after 1s`: a driver writes"),
        (["--standby", "--store", "s", "--take-over-after", "soon"], "`--take-over-after`: "),
        (
            ["--standby", "--store", "s", "--from-window", "3"],
            "`--from-window` changes what a start",
        ),
        (["--standby", "--store", "nowhere"], "nowhere`; see that it is mounted, or make it"),
        (["--standby", "--store", "s", "--profile"], "`--profile` is about one run"),
    ],
)
def test_wrong_options_are_refused(ridgeline_command, tmp_path, words, text):
    (tmp_path / "app.py").write_text("from ridgeline import Application\napp = Application('one')\n")
    (tmp_path / "s").mkdir()
    result = ridgeline_command("run", "app.py", *words)
    assert result.exit_code == 2
    assert text in result.stderr
