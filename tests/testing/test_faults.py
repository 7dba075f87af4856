"""Faults strike a run where their seed, or their text, says; results are those of a run without."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort, RidgelineError
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local


class Word(NamedTuple):
    word: str


class Count(NamedTuple):
    word: str
    count: int


class Counting(Operator):
    words = InputPort(Word, key="word")
    counts = OutputPort(Count)

    totals = KeyedState(int, default=0)

    @words.process
    def add(self, word: Word) -> None:
        self.totals[word.word] += 1

    def end_window(self) -> None:
        for word, count in self.totals.changed():
            self.counts.emit(Count(word, count))


WINDOWS = ["ab", "abc", "", "aab", "c", "ba"]


def application() -> Application:
    app = Application("words", window="1s")
    items = [item for window in WINDOWS for item in [*((word,) for word in window), END_WINDOW]]
    source = app.add_operator("source", ListInput(Word, items[:-1]))
    counting = app.add_operator("counting", Counting(), partitions=2)
    sink = app.add_operator("sink", CollectorSink(Count))
    app.add_stream("words", source.output, counting.words)
    app.add_stream("counts", counting.counts, sink.input)
    return app


def test_a_named_fault_strikes_where_it_says():
    faults = Faults(only=["kill w1 counting[0] call 1", "exception w3 counting[1] end"], quiet=True)
    run = run_local(application(), faults=faults)
    assert [window for window, _, _ in run.retries] == [1, 3]
    assert "`kill w1 counting[0] call 1` kills the container" in run.retries[0][2]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kil w1 a end", "did you mean `kill`"),
        ("kill w1", "`kill w1` is no fault; write it as"),
        ("kill x1 a end", "is no fault"),
        ("kill w1 a call x", "is no fault"),
        ("", "begins with no kind of fault"),
        ("restart w1 a end", "is no fault"),
    ],
)
def test_faults_that_are_none_are_refused(text, told):
    with pytest.raises(RidgelineError, match=told):
        Faults(only=[text])


def test_a_fault_of_an_operator_that_is_not_there_is_refused():
    with pytest.raises(
        RidgelineError, match=r"strikes no operator of this plan; did you mean `counting\[0\]`"
    ):
        run_local(application(), faults=Faults(only=["kill w1 counting0 end"]))


def test_wrong_kinds_and_rates_are_refused():
    with pytest.raises(RidgelineError, match="no kind of fault `explode`"):
        Faults(kinds=["explode"])  # type: ignore[list-item]
    with pytest.raises(RidgelineError, match="from 0 to 1; got 2"):
        Faults(rate=2)
