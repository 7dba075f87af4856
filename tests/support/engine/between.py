"""Who stands between two ends of a connection, and records what passes."""

import socket
import ssl

from ridgeline.engine.exchange.tls import contexts


class Between:
    """Passes on what goes between a caller and a network's TLS port; with a certificate it reads it, too."""

    def __init__(self, wire, address, certificate=None):
        self.passed = b""
        self.said = b""
        """What the caller said of it."""
        self._port = int(address.rpartition(":")[2])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.address = f"tls:127.0.0.1:{self._listener.getsockname()[1]}"
        self._contexts = None if certificate is None else contexts.__wrapped__(certificate)
        for context in self._contexts or ():
            context.verify_mode = ssl.CERT_NONE
        self._ends = ()

    def pass_on(self):
        """One step; True."""
        if not self._ends:
            try:
                caller, _ = self._listener.accept()
            except BlockingIOError:
                return True
            called = socket.create_connection(("127.0.0.1", self._port))
            caller.setblocking(False)
            called.setblocking(False)
            if self._contexts:
                caller = self._contexts[0].wrap_socket(
                    caller, server_side=True, do_handshake_on_connect=False
                )
                called = self._contexts[1].wrap_socket(called, do_handshake_on_connect=False)
            self._ends = (caller, called)
        for source, target in (self._ends, self._ends[::-1]):
            try:
                if self._contexts:
                    source.do_handshake()
                    target.do_handshake()
                data = source.recv(1 << 16)
            except (BlockingIOError, ssl.SSLWantReadError):
                continue
            except OSError:
                data = b""
            if data:
                self.passed += data
                self.said += data if source is self._ends[0] else b""
                target.send(data)
            else:
                self.close()
        return True

    def close(self):
        for end in (*self._ends, self._listener):
            end.close()
