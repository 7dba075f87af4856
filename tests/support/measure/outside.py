"""An application with a counter and a stopwatch of its own, in memory that its processes share.

Arrivals follow the machine's clock: nothing that the engine measures is asked for them.
"""

import mmap
import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State

_BEGAN, _RATE, _COST, _PARTITIONS, _PROCESSED, _WATCHES = 0, 1, 2, 3, 8, 16
_WATCHED = ("slow", "left", "right")
_LEAST_SLEEP_SECONDS = 0.002
_debts: dict[str, float] = {}
"""What operators of this process have not slept yet; no state of theirs."""


class Outside:
    """Numbers in a file that processes map: what has arrived, what is processed, what operators took."""

    def __init__(self, path):
        self._map = mmap.mmap(os.open(path, os.O_RDWR), 4096)

    @classmethod
    def make(cls, path, rate, cost):
        """`rate`: arrivals a second from now on; `cost`: seconds that `Slow` takes for each."""
        Path(path).write_bytes(bytes(4096))
        made = cls(path)
        made._put(_BEGAN, time.time())
        made._put(_RATE, rate)
        made._put(_PARTITIONS, 1)
        made.cost = cost
        return made

    def _get(self, place):
        return struct.unpack_from("d", self._map, 8 * place)[0]

    def _put(self, place, value):
        struct.pack_into("d", self._map, 8 * place, value)

    @property
    def rate(self):
        return self._get(_RATE)

    @property
    def cost(self):
        return self._get(_COST)

    @cost.setter
    def cost(self, seconds):
        self._put(_COST, seconds)

    def repartitioned(self, partitions):
        """So many partitions share the work from now on."""
        self._put(_PARTITIONS, partitions)

    def arrived(self):
        return self.rate * (time.time() - self._get(_BEGAN))

    def processed(self, partition, number):
        """Numbers up to this one are processed, those of the partition."""
        self._put(_PROCESSED + partition, number + 1)

    def backlog(self):
        """What has arrived and is not processed."""
        partitions = int(self._get(_PARTITIONS))
        done = [self._get(_PROCESSED + one) for one in range(partitions)]
        return self.arrived() - sum(done) / partitions

    def took(self, name, seconds):
        """An operator took so long for a record."""
        place = _WATCHES + _WATCHED.index(name)
        self._put(place, self._get(place) + seconds)

    def watch(self, name):
        """All seconds that an operator took."""
        return self._get(_WATCHES + _WATCHED.index(name))


class Number(NamedTuple):
    value: int


class Due(InputOperator):
    """Takes all that has arrived, in each window."""

    output = OutputPort(Number)
    taken = State(0)
    path: str

    def setup(self, *_):
        self.outside = Outside(self.path)

    def emit_tuples(self):
        due = int(self.outside.arrived())
        for number in range(self.taken, due):
            self.output.emit(Number(number))
        self.taken = max(self.taken, due)

    def progress(self):
        return self.taken, max(0, int(self.outside.arrived()) - self.taken)


class _Taking(Operator):
    """Takes a while for each record, and has a stopwatch beside it."""

    path: str
    name: str

    def setup(self, *_):
        self.outside = Outside(self.path)

    def take(self, seconds):
        """Sleep so long on average, for short sleeps last too long."""
        debt = _debts.get(self.name, 0.0) + seconds
        if debt >= _LEAST_SLEEP_SECONDS:
            began = time.perf_counter()
            time.sleep(debt)
            slept = time.perf_counter() - began
            debt -= slept
            self.outside.took(self.name, slept)
        _debts[self.name] = debt


class Slow(_Taking):
    input = InputPort(Number, key="value")
    output = OutputPort(Number, optional=True)

    @input.process
    def work(self, one):
        self.take(self.outside.cost)
        self.outside.processed(self.context.partition, one.value)
        self.output.emit(one)


def overloaded(path, partitions=1):
    """An input that takes all that is due, and an operator that may be too slow for it."""
    app = Application("outside", window="1s")
    source = app.add_operator("source", Due(path=path))
    slow = app.add_operator("slow", Slow(path=path, name="slow"), partitions=partitions)
    app.add_stream("numbers", source.output, slow.input, locality="NODE_LOCAL")
    return app
