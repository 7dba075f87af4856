"""An application that keeps a value for each of many keys, for tests of state files."""

from typing import NamedTuple

import numpy as np

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.testing import CollectorSink

KEYS = 1_009


class Entry(NamedTuple):
    key: int


class Sums(NamedTuple):
    window: int
    keys: int
    touched: int
    whole: int


class Entries(InputOperator):
    """A few keys a window; every third is asked for again later."""

    entries = OutputPort(Entry)

    per_window: int = 40
    windows: int = 1_000_000

    position = State(0)

    def emit_tuples(self):
        for i in range(self.position, self.position + self.per_window):
            self.entries.emit(Entry((i * i if i % 3 else i) % KEYS))
        self.position += self.per_window
        if self.position >= self.windows * self.per_window:
            self.finish()


class Ledger(Operator):
    """Counts keys, forgets some, and emits the state as a whole now and then."""

    entries = InputPort(Entry)
    sums = OutputPort(Sums)

    counts = KeyedState(int, default=0)
    last = State(-1)

    @entries.process
    def count(self, entry):
        if entry.key % 11 == 5:
            self.counts.pop(entry.key, None)
        self.counts[entry.key] += 1

    def end_window(self):
        window = self.context.window_id
        keys, values = self.counts.changed_arrays()
        whole = hash(frozenset(self.counts.items())) if window % 10 == 9 else 0
        self.sums.emit(Sums(window, len(self.counts), int(np.dot(keys, values)), whole))
        self.last = window


def application(**attributes):
    """The input, the ledger and a collector."""
    app = Application("ledger", **attributes)
    entries = app.add_operator("entries", Entries())
    ledger = app.add_operator("ledger", Ledger())
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("entries", entries.entries, ledger.entries)
    app.add_stream("sums", ledger.sums, sink.input)
    return app
