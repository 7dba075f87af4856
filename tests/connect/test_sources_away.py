"""A source that cannot be reached, or does not answer: what is said of it meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from ridgeline import Application, EnumeratorContext, OutputPort
from ridgeline.api.clock import SystemClock
from ridgeline.connect import PartitionedInput, Source, SourceRange, SourceReader
from ridgeline.connect._enumerating import PartitionedEnumerator
from ridgeline.testing import CollectorSink, run_local
from support.waiting import wait_until


class Away(Source):
    """Answers until an event is cleared; then it raises, or does not return."""

    poll_seconds = 0.01
    silent_seconds = 0.2

    def __init__(self, *, hangs: bool) -> None:
        self.hangs = hangs
        self.answers = threading.Event()
        self.answers.set()

    def partitions(self) -> Sequence[str]:
        return ["a"]

    def start(self, partitions: Sequence[str], begin: Any) -> Mapping[str, int]:
        return {"a": 0}

    def ends(self, wait: float) -> Mapping[str, int]:
        if not self.answers.is_set():
            if not self.hangs:
                raise ConnectionRefusedError("port 9092")
            self.answers.wait()
        return {"a": 5}


@pytest.fixture(params=[False, True], ids=["refuses", "hangs"])
def away(request: pytest.FixtureRequest) -> Iterator[tuple[Away, PartitionedEnumerator, list[str]]]:
    source, texts = Away(hangs=request.param), []
    enumerator = PartitionedEnumerator(source, PartitionedInput(discover_every=60.0))
    enumerator.open(
        EnumeratorContext(
            application="app",
            operator="source",
            run_id="run",
            clock=SystemClock(),
            wake=lambda: None,
            check_owner=lambda: None,
            warn=texts.append,
            partitions=lambda: 1,
            staging="memory:",
        ),
        None,
    )
    yield source, enumerator, texts
    source.answers.set()
    enumerator.close()


def test_what_is_said_of_a_source_that_is_away(away: tuple[Away, PartitionedEnumerator, list[str]]) -> None:
    source, enumerator, texts = away
    end = enumerator.advance(0, None)
    assert (end["at"], enumerator.problem, texts) == ({"a": [0, 5]}, "", [])
    source.answers.clear()

    def after(is_so: Callable[[], bool]) -> bool:
        nonlocal end
        end = enumerator.advance(1, end)
        return is_so()

    wait_until(lambda: after(lambda: bool(enumerator.problem and texts)), "what is said of it")
    what = "has not answered since" if source.hangs else "cannot be reached since"
    assert what in texts[0]
    assert enumerator.problem == "no answer" if source.hangs else "port 9092" in enumerator.problem
    source.answers.set()
    wait_until(lambda: after(lambda: not enumerator.problem and len(texts) > 1), "that it answers")
    assert "answers again" in texts[-1]


class Numbered(Source):
    def partitions(self) -> Sequence[str]:
        return ["a"]

    def start(self, partitions: Sequence[str], begin: Any) -> Mapping[str, int]:
        return {"a": 0}

    def ends(self, wait: float) -> Mapping[str, int]:
        return {"a": 3}


class Unread(SourceReader):
    """Cannot be read a few times, though the driver's half answers."""

    failures = 3

    def read(self, part: SourceRange) -> Iterator[list[int]]:
        if Unread.failures:
            Unread.failures -= 1
            raise ConnectionRefusedError("the file server is away")
        yield list(range(part.start, part.end))


class UnreadInput(PartitionedInput[int]):
    output = OutputPort(object)

    def source(self) -> Source:
        return Numbered()

    def reader(self) -> SourceReader:
        return Unread()


def test_a_reader_that_waits_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ridgeline.connect.partitioned_input._SAID_FIRST_SECONDS", 0.05)
    app = Application("numbers")
    app.read("numbers", UnreadInput(until="end")).write("sink", CollectorSink(object))
    assert run_local(app).collected("sink") == [0, 1, 2]
    said = [record.getMessage() for record in caplog.records if "connect.partitioned_input" in record.name]
    assert len(said) == 2
    assert "`numbers` has read nothing for 0 s, and tries again" in said[0]
    assert "the file server is away" in said[0]
    assert "`numbers` reads again" in said[1]
