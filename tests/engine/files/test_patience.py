"""A storage that waits: what a network does is tried again, all else is raised at once."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ridgeline.api.errors import Failure, OperatorError, StateError
from ridgeline.api.support.files import UnavailableError, is_of_store, is_unavailable, waiting_for_store
from ridgeline.connect.window_output import write_failure
from ridgeline.engine.driver.checkpoint import journal
from ridgeline.engine.driver.checkpoint.store_watch import StoreWatch
from ridgeline.engine.files.patience import PatientDriverStorage, PatientStorage
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.engine.operator.failures import failure_of
from ridgeline.engine.state import state_files
from ridgeline.measure.slot_events import StoreSilent
from ridgeline.plan.protocol import STORE
from ridgeline.testing import SteppingClock

REFUSED = OSError("When uploading part: AWS Error NETWORK_CONNECTION during PutObject operation: curlCode: 7")


class Cut(MemoryStorage):
    """A storage behind a network that fails so often. `done`: files are made before the answer is lost."""

    def __init__(self, failures: float, error: OSError = REFUSED, *, done: bool = False) -> None:
        super().__init__()
        self.failures, self._error, self._done = failures, error, done

    def _fail(self) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise self._error

    def read(self, name: str) -> bytes:
        self._fail()
        return super().read(name)

    def write(self, name: str, data: bytes) -> None:
        self._fail()
        super().write(name, data)

    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        if self._done:
            super().create(name, data)
        self._fail()
        return super().create(name, data)

    def names(self, folder: str) -> list[str]:
        self._fail()
        return super().names(folder)

    def delete(self, names: Iterable[str]) -> None:
        found = list(names)
        self._fail()
        super().delete(found)


@pytest.mark.parametrize(
    "error",
    [
        REFUSED,
        OSError("AWS Error UNKNOWN (HTTP status 503) during GetObject operation"),
        OSError("ConnectException: journal/1: Connection refused"),
        OSError("SocketTimeoutException: journal/1: Read timed out"),
        OSError("UnknownHostException: epochs: store"),
        OSError("AWSClientIOException: state: Unable to execute HTTP request: Connection reset"),
        OSError(errno.EHOSTUNREACH, "No route to host"),
        ConnectionResetError("reset"),
        TimeoutError("late"),
    ],
    ids=str,
)
def test_what_a_network_does_may_be_over_soon(error: OSError) -> None:
    assert is_unavailable(error)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("journal/1"),
        FileExistsError("journal/1"),
        PermissionError("ConnectException: x"),
        OSError("AWS Error ACCESS_DENIED during PutObject operation: no"),
        OSError("AWSBadRequestException: journal/1: 400"),
        OSError("NoAuthWithAWSException: no keys"),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
    ids=str,
)
def test_what_stays_as_it_is_is_raised_at_once(error: OSError) -> None:
    assert not is_unavailable(error)
    storage = PatientStorage(Cut(1, error), SteppingClock())
    with pytest.raises(OSError, match=str(error).replace("[", r"\[").replace("]", r"\]")):
        storage.write("state/a", b"1")


def test_operations_are_tried_until_they_succeed() -> None:
    below = Cut(5)
    storage = PatientStorage(below, SteppingClock())
    storage.write("state/a", b"1")
    below.failures = 5
    assert storage.read("state/a") == b"1"
    below.failures = 5
    assert storage.names("state") == ["a"]
    below.failures = 5
    storage.delete(["state/a"])
    assert storage.names("state") == []


def test_a_worker_waits_half_a_minute() -> None:
    clock = SteppingClock()
    began = clock.monotonic()
    with pytest.raises(
        UnavailableError, match=r"the store has not answered for 3\d s \(\d+ attempts\), last"
    ):
        PatientStorage(Cut(1_000_000), clock).read("state/a")
    assert 30 <= clock.monotonic() - began < 33


def test_parts_that_are_gone_are_written_by_nobody_else() -> None:
    with pytest.raises(UnavailableError, match="curlCode: 7"):
        PatientStorage(Cut(1), SteppingClock()).write_parts("state/a", iter([b"1"]))


@pytest.mark.parametrize("end", ["stopped", "failed"])
def test_a_run_that_ends_waits_some_seconds_more(end: str) -> None:
    clock, stop = SteppingClock(), threading.Event()
    storage = PatientDriverStorage(Cut(1_000_000), clock)
    storage.be_patient(stop.is_set)
    if end == "stopped":
        stop.set()
    else:
        storage.hurry()
    began = clock.monotonic()
    with pytest.raises(UnavailableError):
        storage.create("journal/1", b"1")
    assert 10 <= clock.monotonic() - began < 13


def test_a_record_whose_answer_is_lost_is_written_once() -> None:
    storage = PatientDriverStorage(Cut(3, done=True), SteppingClock())
    storage.be_patient(threading.Event().is_set)
    assert journal.create(storage, "journal/1", b"own")
    assert not journal.create(storage, "journal/1", b"of another driver")


class Asked:
    """A storage whose operations are under way as a test says."""

    def __init__(self, clock: SteppingClock) -> None:
        self.found: list[StoreSilent] = []
        self.storage = PatientDriverStorage(MemoryStorage(), clock)
        self.watch = StoreWatch(self.storage, clock, self.found.append)

    def during(self, look: Callable[[], None]) -> None:
        self.storage._try(look)


def test_what_does_not_answer_is_said_with_since_when_and_each_minute() -> None:
    clock = SteppingClock()
    asked = Asked(clock)

    def look() -> None:
        for _ in range(150):
            clock.wait(1)
            asked.watch.look()

    asked.during(look)
    clock.wait(1)
    asked.watch.look()
    assert [round(one.seconds) for one in asked.found] == [8, 68, 128, 151]
    assert [one.again for one in asked.found] == [False, False, False, True]
    assert "has not answered for 8 s; nothing is committed and nothing is lost" in asked.found[0].text
    assert len({one.problem for one in asked.found[:3]}) == 1  # since when, which does not move
    assert asked.found[3].text.endswith("answers again after 151 s: nothing is lost, windows go on")


def test_an_output_waits_for_its_store_half_a_minute_and_no_operator_is_to_blame() -> None:
    clock, below = SteppingClock(), Cut(5)
    assert waiting_for_store(lambda: below.create("part", b"1"), clock)
    below.failures = 1_000_000
    with pytest.raises(UnavailableError, match=r"has not answered for 3\d s") as raised:
        waiting_for_store(lambda: below.create("other", b"1"), clock)
    failure = Failure("app", "table", 0, 7, "end_window", "cannot write", raised=True)
    error = OperatorError(failure)
    spec: Any = None
    assert not failure_of(error, spec, 7, "s3a://states").cluster
    error.__cause__ = write_failure("table", "s3a://rows", raised.value)
    error.__cause__.__cause__ = raised.value
    found = failure_of(error, spec, 7, "s3a://states")
    assert (found.cluster, found.raised, found.operator) == (True, False, "table")


def test_a_state_that_cannot_be_read_since_its_store_is_away_is_no_fault_of_the_state() -> None:
    storage = PatientStorage(Cut(1_000_000), SteppingClock())
    with pytest.raises(StateError) as raised:
        state_files.read(storage, "000000000007-c1-e1-r0-s0a1", "7")
    spec = cast("Any", SimpleNamespace(application="app"))
    found = failure_of(raised.value, spec, 8, "s3a://states")
    assert (found.callback, found.cluster, found.operator) == (STORE, True, "")


def test_an_error_that_is_its_own_cause_is_looked_at_once() -> None:
    own, first, second = ValueError("own"), ValueError("first"), ValueError("second")
    own.__cause__, first.__cause__, second.__cause__ = own, second, first
    assert not is_of_store(own)
    assert not is_of_store(first)
    third = ValueError("third")
    third.__cause__ = UnavailableError("away")
    assert is_of_store(third)
