"""Count the words of lines that a sender pushes to a TCP port, each line exactly once.

Run it in this folder, and send it a file from another terminal:

    ridgeline run socket_lines.py --checkpoint counts-of-lines
    python socket_lines.py words.txt
"""

import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread

import pyarrow as pa

from ridgeline import Application, Cache, OperatorContext, OutputPort, PushInput, State, metric
from ridgeline.operators import ConsoleOutput
from word_count import Count, Line, Split

CHUNK_BYTES = 64 * 1024
LINES_AT_ONCE = 1_000


class LineInput(PushInput):
    """The lines that one sender at a time sends to a TCP port.

    It tells a sender that connects how many lines it has; the sender goes on from there. After a failure it
    has those that were committed. So no line is lost or counted twice, if the sender can go back.
    """

    lines = OutputPort(Line)
    host: str = "127.0.0.1"
    port: int = 4040

    position = State(0)
    sockets = Cache(list[socket.socket])  # the one that listens, and the sender's

    def setup(self, context: OperatorContext) -> None:
        self.chunks: Queue[list[str] | OSError] = Queue(16)  # 1 MiB; then the sender has to wait
        self.stopped = Event()
        self.sockets = [socket.create_server((self.host, self.port))]
        self.listener = Thread(target=self.listen, args=(self.position,), daemon=True)
        self.listener.start()

    @metric(kind="counter", cumulative=True, unit="lines", help="Lines taken, over all runs.")
    def taken(self) -> int:
        return self.position

    @metric(help="Pieces of text that wait in the queue, of at most 16.")
    def queued(self) -> int:
        return self.chunks.qsize()

    def teardown(self) -> None:
        self.stopped.set()
        for one in self.sockets:
            with suppress(OSError):  # it is over already
                one.shutdown(socket.SHUT_RDWR)  # whatever the thread waits for, it does so no longer
            one.close()
        self.listener.join()

    def listen(self, count: int) -> None:
        """Take lines from one sender after the other, in a thread; `count` lines came before."""
        server = self.sockets[0]
        while not self.stopped.is_set():
            try:
                sender, _ = server.accept()
            except OSError as error:
                if not self.stopped.is_set():
                    self.put(error)
                return
            with sender, suppress(OSError):  # a sender that is gone connects again
                self.sockets[1:] = [sender]
                sender.sendall(b"%d\n" % count)
                begun = b""
                while data := sender.recv(CHUNK_BYTES):
                    *whole, begun = (begun + data).split(b"\n")
                    if whole and self.put([line.decode("utf-8", "replace") for line in whole]):
                        count += len(whole)

    def put(self, item: list[str] | OSError) -> bool:
        """Wait for a place in the queue; False if the operator is torn down first."""
        while not self.stopped.is_set():
            with suppress(Full):
                self.chunks.put(item, timeout=0.1)
                self.wake()
                return True
        return False

    def emit_tuples(self) -> None:
        try:
            chunk = self.chunks.get_nowait()
        except Empty:
            return
        if isinstance(chunk, OSError):
            raise chunk
        self.lines.emit_batch(pa.table({"text": chunk}))
        self.position += len(chunk)


def send(lines: Sequence[str], host: str = "127.0.0.1", port: int = 4040) -> None:
    """Send the lines that the application does not have yet. Raises OSError if it goes meanwhile."""
    with socket.create_connection((host, port)) as application:
        first = int(application.makefile().readline())
        for begin in range(first, len(lines), LINES_AT_ONCE):
            part = lines[begin : begin + LINES_AT_ONCE]
            application.sendall("".join(f"{line}\n" for line in part).encode())


app = Application("socket-lines", window="100ms")
text = app.add_operator("text", LineInput())
split = app.add_operator("split", Split())
count = app.add_operator("count", Count(), partitions=2)
shown = app.add_operator("shown", ConsoleOutput())
app.add_stream("lines", text.lines, split.lines)
app.add_stream("words", split.words, count.words)
app.add_stream("counts", count.counts, shown.input)

if __name__ == "__main__":
    send(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())
