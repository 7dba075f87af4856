"""An input that cannot replay, and a queue behind it: it acknowledges what the queue has durably."""

import queue
import socket
import threading
from typing import NamedTuple

import pyarrow as pa

from ridgeline import Application, OutputPort, PushInput
from ridgeline.operators import QueueOutput


class Number(NamedTuple):
    number: int


class Line:
    """The connection to the sender. `emitted`: the last number of each window that is not acknowledged."""

    def __init__(self, port, wake):
        self.arrived = queue.Queue(1000)
        self.emitted = {}
        self.closed = False
        self.wake = wake
        self.socket = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        try:
            with self.socket.makefile("rb") as lines:
                for line in lines:
                    if line.endswith(b"\n"):
                        self.arrived.put(line)
                        self.wake()
        except OSError:
            return

    def acknowledge(self, window_id):
        done = [window for window in self.emitted if window <= window_id]
        if done:
            self.socket.sendall(b"%d\n" % max(self.emitted.pop(window) for window in done))

    def close(self):
        self.socket.close()


class Numbers(PushInput):
    output = OutputPort(Number)
    port: int

    def setup(self, context):
        self.line = Line(self.port, context.wake)

    def teardown(self):
        self.line.close()

    def emit_tuples(self):
        numbers = []
        while not self.line.arrived.empty():
            line = self.line.arrived.get()
            if line == b"end\n":
                self.finish()
                break
            numbers.append(int(line))
        if numbers:
            self.line.emitted[self.context.window_id] = numbers[-1]
            self.output.emit_batch(pa.table({"number": numbers}))

    def committed(self, window_id):
        self.line.acknowledge(window_id)


def application(sender: int, path: str) -> Application:
    app = Application("receiver", window="20ms")
    numbers = app.add_operator("numbers", Numbers(port=sender))
    out = app.add_operator("queue", QueueOutput(path=path))
    app.add_stream("numbers", numbers.output, out.input)
    return app
