"""A service that starts at once: it sends back what it gets. It has a child in a session of its own."""

import socket
import sys

from support.services.network import Proxied

SERVER = """
import os, socketserver, sys, threading

class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

child = os.fork()
if child == 0:
    os.setsid()  # as the processes of PostgreSQL
    threading.Event().wait()
print("child", child, flush=True)
with open("starts", "a") as starts:
    starts.write("x")
Server(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
"""


class Echo(Proxied):
    NAME = "echo"

    def _prepare(self):
        (self.folder / "server.py").write_text(SERVER)

    def _command(self):
        return [sys.executable, str(self.folder / "server.py"), str(self._direct["main"])]

    def _answers(self):
        socket.create_connection(("127.0.0.1", self._direct["main"])).close()
        return True

    def addresses(self):
        return {"ECHO_PORT": str(self._port("main"))}

    def connect(self):
        """A connection through the proxy."""
        return socket.create_connection(("127.0.0.1", self._port("main")))

    @property
    def starts(self):
        return len((self.folder / "starts").read_text())

    @property
    def child(self):
        """The process that the last start has forked."""
        return int(self.logs().rpartition("child ")[2].split()[0])
