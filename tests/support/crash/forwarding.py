"""A port of this machine that hosts reach: servers of tests listen on its loopback address only."""

import asyncio
import contextlib
import subprocess
import sys

_PIECE = 1 << 16


class Forwarding:
    """`with Forwarding(address, port)`: connections to `address:port` go to `127.0.0.1:port`."""

    def __init__(self, address, port):
        self._command = [sys.executable, __file__, address, str(port)]

    def __enter__(self):
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()


async def _serve(address, port):
    async def connect(reader, writer):
        with contextlib.suppress(OSError):
            theirs, ours = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_move(reader, ours), _move(theirs, writer))

    async with await asyncio.start_server(connect, address, port) as server:
        print("ready", flush=True)
        await server.serve_forever()


async def _move(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))
