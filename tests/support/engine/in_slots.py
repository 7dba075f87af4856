"""Operators for slots: they note which process they live in, and end it."""

import gc
import os
import signal
import threading
import uuid
from pathlib import Path

from ridgeline import Application, InputPort
from ridgeline.engine.exchange.network import STRAM, Peer
from ridgeline.engine.exchange.sockets import Sockets
from support.engine.applications import Counter, Number, Sum, sink


class NotedSum(Sum):
    """Notes in `folder` each `setup`, `teardown`, and each process and thread that has run it."""

    folder: str = ""

    def setup(self, context):
        self._note("setup", uuid.uuid4().hex)

    def teardown(self):
        self._note("teardown", uuid.uuid4().hex)

    def begin_window(self, window_id):
        self._note("lives", threading.get_ident())

    def _note(self, what, more):
        Path(self.folder, f"{what}-{self.context.partition}-{os.getpid()}-{more}").touch()


class DyingSum(Sum):
    """Ends its process when it meets `bad`, as long as fewer than `deaths` notes of it lie in `folder`."""

    folder: str = ""
    bad: int = -1
    deaths: int = 1_000_000
    how: str = "kill"

    numbers = Sum.numbers

    def end_window(self):
        before = len(list(Path(self.folder).iterdir()))
        if self.context.window_id == self.bad and before < self.deaths:
            Path(self.folder, str(before)).touch()
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(3)
        self.sums.emit(Number(self.total))


def two_stages(summing, *, count=200, partitions=2, locality=None, **attributes):
    """Numbers from two partitions, sums in a second stage of containers, a sink in a third."""
    app = Application("two-stages", window="1ms", window_work="1h")
    source = app.add_operator("numbers", Counter(count=count), partitions=partitions)
    total = app.add_operator("total", summing, partitions=partitions, **attributes)
    app.add_stream("numbers", source.numbers, total.numbers, locality=locality)
    app.add_stream("sums", total.sums, sink(app, "store", Number))
    return app


def notes(folder, what):
    """The notes of a kind, as (partition, process) pairs."""
    found = [path.name.split("-") for path in Path(folder).glob(f"{what}-*")]
    return [(int(partition), int(pid)) for _, partition, pid, _ in found]


class BabblingSum(Sum):
    """In the first attempt at the number 13 its slot sends STRAM what is no message."""

    def crunch(self, number):
        if number.value == 13 and self.context.attempt == 0:
            [network] = [found for found in gc.get_objects() if isinstance(found, Sockets)]
            network.send(Peer(STRAM, 1), 999, b"?")
        self.total += number.value

    numbers = InputPort(Number)
    numbers.process(crunch)
