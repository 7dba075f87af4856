"""Operators that notice whether a change touches them."""

import os
import socket
import threading
import uuid
from pathlib import Path

from ridgeline import Application, InputPort, Operator
from ridgeline.testing import CollectorSink
from support.service.live import Number, Numbers, Sums


class Holder(Operator):
    """Holds a connection from `setup` to `teardown`; notes these in `folder`, and who lives."""

    input = InputPort(Number)
    folder: str = ""
    mark: str = "first"

    def setup(self, context):
        self.here, self.there = socket.socketpair()
        self.name = uuid.uuid4().hex
        self._note("setup", self.mark)

    def teardown(self):
        self._note("teardown", self.mark)
        self.here.close()
        self.there.close()

    @input.process
    def see(self, number):
        self.here.send(b"x")
        assert self.there.recv(1) == b"x"
        self._note("lives", self.mark)

    def _note(self, what, mark):
        thread = threading.get_ident()
        Path(self.folder, f"{what}-{os.getpid()}-{thread}-{mark}-{self.name}").touch()


def staying(folder):
    """The live application, with a holder that reads the numbers, too."""
    app = Application("live", window="2ms", window_work="1h")
    numbers = app.add_operator("numbers", Numbers())
    sums = app.add_operator("sums", Sums())
    holder = app.add_operator("holder", Holder(folder=str(folder)))
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, sums.input, holder.input)
    app.add_stream("sums", sums.output, sink.input)
    return app
