"""Words that are counted in parts, merged by key, and searched for the largest count."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

from ridgeline.api import (
    Application,
    InputPort,
    KeyedState,
    Operator,
    OutputPort,
    StreamCodec,
    Unifier,
)
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput


class Count(NamedTuple):
    word: str
    count: int


class AddByWord(Unifier):
    """One count for each word, in the order in which words came."""

    counts = InputPort(Count, key="word")
    sums = OutputPort(Count)

    def begin_window(self, window_id: int) -> None:
        self.total: Counter[str] = Counter()

    @counts.process
    def add(self, count: Count) -> None:
        self.total[count.word] += count.count

    def end_window(self) -> None:
        for word, count in self.total.items():
            self.sums.emit(Count(word, count))


class Words(Operator):
    """Counts what it gets, round robin: each partition has a part of each word's count."""

    words = InputPort(Count)
    counts = OutputPort(Count, unifier=AddByWord)

    def begin_window(self, window_id: int) -> None:
        self.total: Counter[str] = Counter()

    @words.process
    def add(self, count: Count) -> None:
        self.total[count.word] += count.count

    def end_window(self) -> None:
        for word, count in self.total.items():
            self.counts.emit(Count(word, count))


class Largest(Operator):
    """The largest count of the window; of two, the one of the later word."""

    counts = InputPort(Count)
    largest = OutputPort(Count, unifier="self")
    least: int = 0

    def begin_window(self, window_id: int) -> None:
        self.best: Count | None = None

    @counts.process
    def compare(self, count: Count) -> None:
        better = self.best is None or (count.count, count.word) > (self.best.count, self.best.word)
        if count.count >= self.least and better:
            self.best = count

    def end_window(self) -> None:
        if self.best is not None:
            self.largest.emit(self.best)


class Once(Operator):
    """By word; fails at a second count of a word in a window, which only a missing merge brings."""

    counts = InputPort(Count, key="word")
    out = OutputPort(Count)

    seen = KeyedState(int, default=-1)

    @counts.process
    def note(self, count: Count) -> None:
        if self.seen[count.word] == self.context.window_id:
            raise ValueError(f"{count.word} comes twice")
        self.seen[count.word] = self.context.window_id
        self.out.emit(count)


class JsonCounts(StreamCodec):
    """Counts as JSON."""

    def encode(self, tuple: Count) -> bytes:
        return json.dumps(tuple).encode()

    def decode(self, data: bytes) -> Count:
        return Count(*json.loads(data))


def application(
    windows: list[list[str]],
    words: Operator | None = None,
    *,
    n: int = 1,
    m: int = 1,
    limit: Any = None,
    single: bool = False,
    mark: list[Any] | None = None,
    **attributes: Any,
) -> Application:
    """Words -> Once -> a sink, and Words -> Largest -> a sink."""
    items = [
        item for window in windows for item in (*(Count(w, 1) for w in window), *(mark or []), END_WINDOW)
    ]
    app = Application("words", **{"window": "1s"} | attributes)
    source = app.add_operator("source", ListInput(Count, items))
    counted: Any = app.add_operator("words", words or Words(), partitions=n, unifier_limit=limit)
    once = app.add_operator("once", Once(), partitions=m)
    largest = app.add_operator("largest", Largest(least=1), partitions=m, unifier_limit=limit)
    if single:
        app.set_attribute(counted.counts, unifier_single_final=True)
        app.set_attribute(largest.counts, unifier_single_final=True)
    app.add_stream("read", source.output, counted.words)
    app.add_stream("counted", counted.counts, once.counts, largest.counts)
    app.add_stream("once", once.out, app.add_operator("counts", CollectorSink(Count)).input)
    app.add_stream("largest", largest.largest, app.add_operator("best", CollectorSink(Count)).input)
    return app
