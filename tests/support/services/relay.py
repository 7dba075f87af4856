"""A TCP proxy in a process of its own: `python relay.py PORT:TARGET ...`, ports of 127.0.0.1.

A TARGET may be `ADDRESS:PORT`, of IPv4.

It reads commands from its input, a line each, and answers `ok` once it has obeyed. They are `cut` (drop
and refuse connections), `hang` (keep them, move nothing), `mend`, and `slow RATE` (bytes a second in each
direction; 0: no limit). A file of the standard library alone, so that it starts quickly.
"""

import asyncio
import contextlib
import os
import socket
import struct
import sys

_PIECE = 1 << 18
_RESET = struct.pack("ii", 1, 0)
_PIECES_A_SECOND = 20


class Relay:
    """The connections of all ports, and whether and how fast bytes move."""

    def __init__(self) -> None:
        self._moving = asyncio.Event()
        self._moving.set()
        self._rate = 0
        self._free = [0.0, 0.0]
        self._pairs: list[tuple[int, tuple[str, int]]] = []
        self._holders: list[socket.socket] = []
        self._listeners: list[asyncio.Task[None]] = []
        self._sockets: set[socket.socket] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, port: int, target: tuple[str, int]) -> None:
        """Listen on `port` for connections to `target`. The port stays ours while connections are refused."""
        holder = _bound(port)
        self._holders.append(holder)
        self._pairs.append((port, target))
        self._listen(port, target)

    def _listen(self, port: int, target: tuple[str, int]) -> None:
        listener = _bound(port)
        listener.listen(512)
        self._listeners.append(asyncio.create_task(self._accept(listener, target)))

    async def _accept(self, listener: socket.socket, target: tuple[str, int]) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                client, _ = await loop.sock_accept(listener)
                task = asyncio.create_task(self._connect(client, target))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:
            listener.close()

    async def _connect(self, client: socket.socket, target: tuple[str, int]) -> None:
        """Serve one connection until both sides have ended it, or one is lost."""
        server = socket.socket()
        server.settimeout(0)
        ours = {client, server}
        self._sockets |= ours
        try:
            for end in ours:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._moving.wait()
            await asyncio.get_running_loop().sock_connect(server, target)
            async with (
                asyncio.TaskGroup() as both
            ):  # one that fails ends the other, before the sockets are closed
                both.create_task(self._move(client, server, 0))
                both.create_task(self._move(server, client, 1))
        except* OSError:
            for end in ours:
                _reset(end)
        finally:
            self._sockets -= ours
            for end in ours:
                end.close()

    async def _move(self, source: socket.socket, destination: socket.socket, way: int) -> None:
        """Move bytes from one end to the other, as fast as allowed, until the source has ended."""
        loop = asyncio.get_running_loop()
        while True:
            piece = min(_PIECE, max(1, self._rate // _PIECES_A_SECOND)) if self._rate else _PIECE
            data = await loop.sock_recv(source, piece)
            if self._rate:
                begin = max(loop.time(), self._free[way])
                self._free[way] = begin + len(data) / self._rate
                await asyncio.sleep(self._free[way] - loop.time())
            await self._moving.wait()
            if not data:
                destination.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(destination, data)

    async def obey(self, command: str) -> None:
        """Carry out one command."""
        match command.split():
            case ["cut"]:
                await self._cut()
            case ["hang"]:
                self._moving.clear()
                self._open()
            case ["mend"]:
                self._moving.set()
                self._open()
            case ["slow", rate]:
                self._rate, self._free = int(rate), [0.0, 0.0]
            case _:
                raise ValueError(f"no command: {command!r}")

    async def _cut(self) -> None:
        for end in self._sockets:
            _reset(end)
        tasks = [*self._listeners, *self._tasks]
        self._listeners = []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _open(self) -> None:
        if not self._listeners:
            for port, target in self._pairs:
                self._listen(port, target)


def _bound(port: int) -> socket.socket:
    """A socket on the port, which others of ours may have too."""
    bound = socket.socket()
    bound.settimeout(0)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound


def _reset(end: socket.socket) -> None:
    """Make the close of a socket a reset: the other side gets an error, not the end of the stream."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


async def main() -> None:
    """Serve the ports, obey until the input ends."""
    relay = Relay()
    for pair in sys.argv[1:]:
        port, *host, target = pair.split(":")
        relay.serve(int(port), (host[0] if host else "127.0.0.1", int(target)))
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    _answer()
    while line := await commands.readline():
        await relay.obey(line.decode())
        _answer()


def _answer() -> None:
    os.write(1, b"ok\n")


if __name__ == "__main__":
    asyncio.run(main())
