"""A count of words, window by window, that is right if several partitions share a word."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ridgeline import InputPort, KeyedState, Operator, OutputPort, Unifier
from ridgeline.api.balancing import BalancedPartitioner


class Word(NamedTuple):
    word: str
    count: int


class AddUp(Unifier):
    """Adds up counts of several partitions by word."""

    input = InputPort(Word, key="word")
    output = OutputPort(Word)
    counts = KeyedState(int, scope="window")

    @input.process
    def add(self, word):
        self.counts[word.word] = self.counts.get(word.word, 0) + word.count

    def end_window(self):
        for word, count in self.counts.items():
            self.output.emit(Word(word, count))


class Count(Operator):
    """Counts words window by window."""

    data = InputPort(Word, key="word")
    output = OutputPort(Word, unifier=AddUp)
    counts = KeyedState(int, scope="window")

    @data.process
    def count(self, word):
        self.context.clock.wait(0.001)
        self.counts[word.word] = self.counts.get(word.word, 0) + word.count

    def end_window(self):
        for word, count in self.counts.items():
            self.output.emit(Word(word, count))


SHARED = BalancedPartitioner(4, [cell % 3 for cell in range(16)], dict.fromkeys(range(3, 16), (0, 1, 2)))


def zipf(windows=30, size=200, hot=0.6):
    random = np.random.default_rng(11)
    return [
        ["the" if random.random() < hot else f"w{random.integers(300)}" for _ in range(size)]
        for _ in range(windows)
    ]
