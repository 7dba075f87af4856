"""Sends numbers and keeps those that were not acknowledged: `python -m support.crash.sender COUNT`.

It prints its port, and sends the numbers below COUNT, a line each, to the one that has connected last. Lines
come back: "all up to this number have arrived". To one that connects it sends all that is not acknowledged.
Once all is, it sends `end`. It ends when its standard input does, and prints how many numbers it has sent.
"""

import socket
import sys
import threading

BATCH, PAUSE = 100, 0.015


class Sender:
    def __init__(self, count):
        self.count = count
        self.acknowledged = self.sent = 0
        self.ends = threading.Event()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.connection = None

    def serve(self):
        while True:
            connection, _ = self.server.accept()
            if self.connection is not None:
                self.connection.close()
            self.connection = connection
            for target in (self.send, self.receive):
                threading.Thread(target=target, args=(connection,), daemon=True).start()

    def send(self, connection):
        position = self.acknowledged
        try:
            while not self.ends.wait(PAUSE):
                until = min(self.count, position + BATCH)
                if until > position:
                    connection.sendall(b"".join(b"%d\n" % number for number in range(position, until)))
                    self.sent += until - position
                    position = until
                elif self.acknowledged == self.count:
                    connection.sendall(b"end\n")
                    return
        except OSError:
            return

    def receive(self, connection):
        try:
            with connection.makefile("rb") as lines:
                for line in lines:
                    if line.endswith(b"\n"):
                        self.acknowledged = max(self.acknowledged, int(line) + 1)
        except (OSError, ValueError):
            return


if __name__ == "__main__":
    sender = Sender(int(sys.argv[1]))
    threading.Thread(target=sender.serve, daemon=True).start()
    print(sender.server.getsockname()[1], flush=True)
    sys.stdin.read()
    sender.ends.set()
    print(sender.sent, flush=True)
