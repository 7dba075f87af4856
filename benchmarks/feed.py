"""A process that writes 1,000 records a second: `python -m benchmarks.feed file PATH | socket PORT_FILE`.

Record n is created at the n-th tick of a clock and is a line `n,microseconds since 1970`. Lines are appended
to a file, or sent to the one client that connects to the port whose number is written to the file
`PORT_FILE`; records begin with the connection.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

RECORDS_PER_SECOND = 1_000


def feed(write: Callable[[bytes], object]) -> None:
    """Write records as they become due, until the process ends."""
    began = time.time()
    written = 0
    while True:
        due = int((time.time() - began) * RECORDS_PER_SECOND)
        if due > written:
            lines = [
                f"{number},{int((began + number / RECORDS_PER_SECOND) * 1e6)}\n"
                for number in range(written, due)
            ]
            write("".join(lines).encode())
            written = due
        time.sleep(0.5 / RECORDS_PER_SECOND)


def main() -> None:
    kind, path = sys.argv[1:]
    if kind == "file":
        with Path(path).open("ab", buffering=0) as file:
            feed(file.write)
    with socket.create_server(("127.0.0.1", 0)) as server:
        part = Path(f"{path}.part")
        part.write_text(str(server.getsockname()[1]))
        part.rename(path)
        connection, _peer = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # a reader may close the connection
            feed(connection.sendall)


@contextlib.contextmanager
def feeding(kind: str, path: Path) -> Iterator[None]:
    """The process runs in this block."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.feed", kind, str(path)])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
