"""Attacks the ports of a victim: damaged forms of real conversations, over sockets, and what it costs it."""

from __future__ import annotations

import json
import os
import random
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ridgeline.engine.exchange.address import TlsWay, ways_of
from ridgeline.engine.exchange.connection import hello
from ridgeline.engine.exchange.frames import encode
from ridgeline.engine.exchange.network import STRAM, Peer
from ridgeline.engine.exchange.tls import Certificate, contexts
from support.mutating import mutated
from support.waiting import PATIENCE_SECONDS

BASE = "/ws/v2/stram"
_TESTS = Path(__file__).parents[2]
_LINGERING = 40
"""Connections of one kind that are left open in the middle, and so are ended by the victim."""


class Victim:
    """The process that is attacked. Its ports, and what it has used so far."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o700)
        self.folder = folder
        self.log = folder / "log"
        path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
        with (folder / "stderr").open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "support.fuzz.victim", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": path, "RIDGELINE_HOME": str(folder / "home")},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (folder / "stderr").read_text()[-4000:]
        self.told: dict[str, Any] = json.loads(line)
        self.certificate = Certificate(self.told["chain"], self.told["key"])
        (way,) = ways_of(self.told["stram"])
        assert isinstance(way, TlsWay)
        self.stram = way.port
        self.pids = [self.process.pid, *self.told["slots"].values()]
        self.slots = {slot: self._listens(pid) for slot, pid in self.told["slots"].items()}

    @staticmethod
    def _listens(pid: int) -> int:
        """The port on which a process listens."""
        inodes = set()
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                inodes.add(str(one.readlink()).partition("[")[2].rstrip("]"))
        for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and rest[5] in inodes:
                return int(local.partition(":")[2], 16)
        raise AssertionError(f"process {pid} listens on no port")

    def windows(self) -> int:
        """How many windows are committed. Raises OSError if the service does not answer."""
        with socket.create_connection(("127.0.0.1", self.told["web"]), 30) as line:
            head = (
                f"GET {BASE}/info HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.told['token']}"
            )
            line.sendall(f"{head}\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while data := line.recv(1 << 16):
                answer += data
        return int(json.loads(answer.partition(b"\r\n\r\n")[2])["stats"]["windowsCommitted"])

    def used(self) -> dict[str, list[int]]:
        """Of each process: anonymous memory in KiB, threads, descriptors."""
        found: dict[str, list[int]] = {"memory": [], "threads": [], "descriptors": []}
        for pid in self.pids:
            status = dict(
                line.split(":", 1)
                for line in Path(f"/proc/{pid}/status").read_text().splitlines()
                if ":" in line
            )
            found["memory"].append(int(status["RssAnon"].split()[0]))
            found["threads"].append(int(status["Threads"]))
            found["descriptors"].append(len(list(Path(f"/proc/{pid}/fd").iterdir())))
        return found

    def end(self) -> str:
        """End it in order; what it says last."""
        with suppress(ValueError, OSError):
            rest, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
            return rest.decode()
        return ""

    def kill(self) -> None:
        """End it in any case."""
        with self.process:
            self.process.kill()


class Attack:
    """Inputs for one port. `samples`: what a real client says; `open`: connects to it."""

    def __init__(
        self,
        name: str,
        samples: list[bytes],
        open_line: Callable[[], socket.socket],
        *,
        introduced: Callable[[socket.socket], None] | None = None,
    ) -> None:
        self.name, self._samples, self._open, self._introduced = name, samples, open_line, introduced
        self._lingering: list[socket.socket] = []
        self.sent: Counter[str] = Counter()

    def run(self, count: int, seed: str) -> None:
        """Send so many inputs, one connection each."""
        chance = random.Random(seed)
        for data in mutated(self._samples, f"{seed} {self.name}", count):
            try:
                self._one(data, chance)
                self.sent["inputs"] += 1
            except (OSError, ssl.SSLError) as error:
                self.sent["inputs"] += 1
                self.sent[type(error).__name__] += 1
        for line in self._lingering:
            line.close()

    def _one(self, data: bytes, chance: random.Random) -> None:
        line = self._open()
        try:
            line.settimeout(5.0)
            if self._introduced is not None:
                self._introduced(line)
            how = chance.randrange(20)
            if how == 0:  # in pieces
                for at in range(0, min(len(data), 2000), 200):
                    line.sendall(data[at : at + 200])
            elif how == 1 and len(self._lingering) < _LINGERING:  # and then nothing
                line.sendall(data[: len(data) // 2])
                self._lingering.append(line)
                line = socket.socket()
            elif how == 2:  # and gone, without reading
                line.sendall(data)
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                line.sendall(data)
                line.shutdown(socket.SHUT_WR)
                line.settimeout(0.3)
                with suppress(TimeoutError):
                    while line.recv(1 << 16):
                        pass
        finally:
            line.close()


def requests(token: str) -> list[bytes]:
    """Requests to the web service, as its clients send them."""

    def ask(method: str, path: str, body: bytes = b"", *more: str) -> bytes:
        heads = ["Host: localhost", f"Authorization: Bearer {token}", *more]
        if body and not any("chunked" in one for one in more):
            heads.append(f"Content-Length: {len(body)}")
        return f"{method} {path} HTTP/1.1\r\n".encode() + "\r\n".join([*heads, "", ""]).encode() + body

    edit = {"do": "set-attribute", "operator": "none", "attribute": "x", "value": [1, {"a": 2}]}
    body = json.dumps({"edits": [edit], "dryRun": True}).encode()
    is_json = "Content-Type: application/json"
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return [
        ask("GET", f"{BASE}/info"),
        ask("GET", f"{BASE}/live?since=0", b"", "Accept: text/event-stream"),
        ask("GET", f"{BASE}/windows?limit=5&offset=1") + ask("GET", "/"),
        ask("POST", f"{BASE}/changes", body, is_json),
        ask("POST", f"{BASE}/changes", chunked, is_json, "Transfer-Encoding: chunked"),
        ask("POST", f"{BASE}/recordings", b'{"operator": "none", "windows": 3}', is_json),
        ask("GET", f"{BASE}/physicalPlan/operators", b"", *(f"X-{n}: {'y' * 200}" for n in range(60))),
        ask("HEAD", "/metrics", b"", "Accept-Encoding: gzip", "Range: bytes=0-10"),
        ask("POST", "/page/session", b'{"code": "0123456789"}', "Content-Type: application/json"),
        ask("GET", "/page/live", b"", "Cookie: session=0123", "Upgrade: websocket", "Connection: Upgrade"),
        ask("OPTIONS", "*", b"", "Expect: 100-continue"),
    ]  # fmt: skip


def hellos() -> list[bytes]:
    """What slots say first, with and without what follows; from one that the application does not have.

    Who has the certificate and says that it is STRAM is believed: it could send code as well.
    """
    frames = b"".join(b"".join(encode(kind, b"head", [bytes(64)] * 2)) for kind in range(4))
    said = hello(Peer(7_000), Peer(STRAM, 1))
    return [said, said + frames, hello(Peer(7_000), Peer(0))]


def hello_of_tls() -> bytes:
    """What a client of TLS says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    side = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        side.do_handshake()
    return outgoing.read()


def frames() -> list[bytes]:
    """Frames that no peer sends: whole ones, of kinds that there are not."""
    whole = [b"".join(encode(kind, b"head" * 20, [bytes(100)] * 2)) for kind in (40_000, 50_000, 60_000)]
    return [*whole, b"".join(whole)]


def introduce(slot: int, line: socket.socket) -> None:
    """Say hello to a slot, as one that the application does not have."""
    mine = Peer(random.SystemRandom().randrange(1000, 2**31 - 1), 0)
    line.sendall(hello(mine, Peer(slot)))
    if not line.recv(1 << 10):
        raise ConnectionError("it hung up")


def dial(port: int) -> socket.socket:
    """A connection to a port of this host."""
    return socket.create_connection(("127.0.0.1", port), 10.0)


def dial_tls(port: int, certificate: Certificate | None = None) -> socket.socket:
    """The same, within TLS; `certificate`: the application's."""
    context = contexts(certificate).connects if certificate else ssl._create_unverified_context()
    line = dial(port)
    line.settimeout(5.0)
    try:
        return context.wrap_socket(line, server_hostname="localhost")
    except BaseException:
        line.close()
        raise


def attacks(victim: Victim) -> list[tuple[float, Attack]]:
    """All attacks, with the share of the inputs of each."""
    told = victim.told
    http, said = requests(told["token"]), hellos()
    tls = [hello_of_tls(), hello_of_tls() + b"".join(http[:1])]
    web, web_tls, stram = told["web"], told["web_tls"], victim.stram
    (slot, first), (_, second) = list(victim.slots.items())[:2]
    lines = ["a line\n", "wörter\r\n" * 20, '{"a": 1}\n' * 50]
    return [
        (0.46, Attack("web", http, lambda: dial(web))),
        (0.04, Attack("web, TLS", http, lambda: dial_tls(web_tls))),
        (0.10, Attack("web, broken TLS", [*tls, *http[:2]], lambda: dial(web_tls))),
        (0.05, Attack("STRAM, broken TLS", [*tls, *said], lambda: dial(stram))),
        (0.02, Attack("STRAM", said, lambda: dial_tls(stram))),
        (0.07, Attack("slot, broken TLS", [*tls, *said], lambda: dial(second))),
        (0.07, Attack("slot, hellos", said, lambda: dial_tls(first, victim.certificate))),
        (0.03, Attack("slot", frames(), lambda: dial_tls(first, victim.certificate),
                      introduced=partial(introduce, int(slot)))),
        (0.16, Attack("lines", [one.encode() for one in lines], lambda: dial(told["lines"]))),
    ]  # fmt: skip


def assault(victim: Victim, count: int, seed: str) -> Iterator[Attack]:
    """Attack all ports at once with so many inputs; yields each attack once it is over."""
    found = attacks(victim)
    threads = [
        threading.Thread(target=one.run, args=(max(1, round(share * count)), seed), daemon=True)
        for share, one in found
    ]
    for thread in threads:
        thread.start()
    for thread, (_, one) in zip(threads, found, strict=True):
        thread.join()
        yield one
