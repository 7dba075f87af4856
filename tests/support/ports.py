"""Ports for what tests start."""

import contextlib
import random
import socket

_LEAST, _END = 10_000, 30_000
"""Below those that systems give to connections by themselves."""


def free_port(address="127.0.0.1"):
    """A port on which nobody listens, for a process that starts later, or stops and starts again.

    No connection of another process takes it meanwhile.
    """
    luck = random.SystemRandom()
    while True:
        port = luck.randrange(_LEAST, _END)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((address, port))
            return port
