"""An application with a million keys to be killed: it adds them in a few windows, then touches few."""

import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.operators import FileOutput

FILLED = 5
WINDOWS = 40


class Tick(NamedTuple):
    number: int


class Sum(NamedTuple):
    window: int
    partition: int
    keys: int
    touched: int
    total: int


class Ticks(InputOperator):
    ticks = OutputPort(Tick)

    position = State(0)

    def emit_tuples(self):
        self.ticks.emit(Tick(self.position))
        self.position += 1
        if self.position >= WINDOWS:
            self.finish()


class Holder(Operator):
    """In the windows `wait_in` partition 0 writes its process id and waits for `folder/go-<window>`."""

    ticks = InputPort(Tick, key="number")
    sums = OutputPort(Sum)

    keys: int = 1_000_000
    wait_in: str = ""
    folder: str = ""

    held = KeyedState(int, default=0)

    @ticks.process
    def take(self, tick):
        pass

    def end_window(self):
        window, partition = self.context.window_id, self.context.partition
        if str(window) in self.wait_in.split(",") and partition == 0:
            Path(self.folder, f"pid-{window}-{os.getpid()}").touch()
            while not Path(self.folder, f"go-{window}").exists():
                time.sleep(0.01)
        share = self.keys // self.context.partitions
        if window < FILLED:
            keys = np.arange(window * share // FILLED, (window + 1) * share // FILLED)
            self.held.put_many(keys, keys * 2)
        else:
            keys = np.unique(np.arange(1000) * (window * 7919 + partition) % share)
            self.held.put_many(keys, self.held.get_many(keys) + window)
            for key in (window, 3 * window):
                self.held.pop(key, None)
        _, values = self.held.changed_arrays()
        total = sum(self.held.values()) if window == WINDOWS - 1 else 0
        self.sums.emit(Sum(window, partition, len(self.held), int(values.sum()), total))


def application(output: str, folder: str = "", wait_in: str = "") -> Application:
    app = Application("million", window="10ms", windows_kept=1_000)
    ticks = app.add_operator("ticks", Ticks())
    holder = app.add_operator("holder", Holder(folder=folder, wait_in=wait_in), partitions=2)
    store = app.add_operator("store", FileOutput(path=output, format="jsonl", roll_seconds=0))
    app.add_stream("ticks", ticks.ticks, holder.ticks)
    app.add_stream("sums", holder.sums, store.input)
    return app
