"""An application that strangers connect to, by the thousand: `python -m benchmarks.apps.beset JOB FILE`.

`JOB` is JSON of a `Job`. The window times of each phase are written to `FILE`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.apps.queried import Prices, Volume, windows_of
from ridgeline import Application
from ridgeline.operators import ConsoleOutput
from ridgeline.service.handle import Handle

BEFORE, WEB, SLOTS, AFTER = "no strangers", "at the web service", "at STRAM and slots", "after"
_LISTENS = "0A"
_WARM_UP = 200
_CORES = 4
_MOST = 40_000
"""Connections that strangers make in all."""


@dataclass(frozen=True)
class Job:
    """How long each phase is, and how many strangers connect to each port."""

    seconds: float
    strangers: int = 2_000


@contextlib.contextmanager
def standalone(folder: Path, cores: int) -> Iterator[str]:
    """A Spark standalone cluster on the loopback address, where slots listen on ports; its master."""
    import pyspark

    spark = Path(pyspark.__file__).parent
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    own = ["--cores", str(cores), "--memory", "2g", "--work-dir", str(folder), master]
    running = [
        subprocess.Popen(
            [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *here, *more],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"SPARK_HOME": str(spark), "SPARK_LOCAL_IP": "127.0.0.1"},
        )
        for kind, more in (("master.Master", ["--port", str(port)]), ("worker.Worker", own))
    ]
    try:
        yield master
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


def application() -> Application:
    """Prices, their volumes by two partitions, and who looks at those."""
    app = Application("beset", window="20ms")
    prices = app.add_operator("prices", Prices(size=100))
    volume = app.add_operator("volume", Volume(), partitions=2)
    shown = app.add_operator("shown", ConsoleOutput(limit=0))
    app.add_stream("prices", prices.output, volume.prices)
    app.add_stream("totals", volume.totals, shown.input)
    return app


def ports() -> list[int]:
    """TCP ports that Python processes among this one and its descendants listen on."""
    parents, pythons = {}, set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if "python" in (folder / "exe").readlink().name:
                pythons.add(int(folder.name))
    mine, found = {os.getpid()}, 0
    while len(mine) != found:
        found = len(mine)
        mine |= {one for one, parent in parents.items() if parent in mine}
    inodes = set()
    for process in mine & pythons:
        for descriptor in Path(f"/proc/{process}/fd").glob("*"):
            with contextlib.suppress(OSError):
                inodes.add(str(descriptor.readlink()))
    listening = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in inodes:
                listening.add(int(fields[1].rpartition(":")[2], 16))
    return sorted(listening)


def beset(targets: list[int], strangers: int, seconds: float) -> int:
    """Connect so many strangers to each port, say half of something, and again where they are hung up on.

    It ends by itself after `seconds`. Returns how many connections were made.
    """
    until, made = time.time() + seconds, 0
    lines: dict[int, list[socket.socket]] = {port: [] for port in targets}
    while time.time() < until and made < _MOST:
        for port, held in lines.items():
            for line in held[:]:
                with contextlib.suppress(BlockingIOError):
                    try:
                        over = not line.recv(1)
                    except ConnectionError:
                        over = True
                    if over:
                        held.remove(line)
                        line.close()
            for _ in range(min(100, strangers - len(held))):
                line = socket.socket()
                line.settimeout(1.0)
                try:
                    line.connect(("127.0.0.1", port))
                    line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
                except OSError:
                    line.close()
                    continue
                line.setblocking(False)  # noqa: FBT003
                held.append(line)
                made += 1
        time.sleep(0.05)
    return made


def _beset(handle: Handle, job: Job, targets: list[int]) -> dict[str, Any]:
    """The windows while strangers come; they begin first."""
    command = [sys.executable, "-m", "benchmarks.apps.beset", "strangers", json.dumps(targets)]
    limits = [str(job.strangers), str(job.seconds + 5)]
    with subprocess.Popen([*command, *limits], stdout=subprocess.PIPE, text=True) as attacking:
        time.sleep(4)
        found = {"windows": windows_of(handle, job.seconds)}
        said, _ = attacking.communicate(timeout=60)
    return found | {"connections": int(said)}


def run(job: Job) -> dict[str, Any]:
    """All phases, one after the other."""
    phases: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, standalone(Path(folder, "work"), _CORES) as master:
        checkpoint = str(Path(folder, "checkpoint"))
        conf = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
        }
        with application().start(master, checkpoint=checkpoint, quiet=True, conf=conf) as handle:
            handle.wait_until_started()
            while len(handle.windows()) < _WARM_UP:
                time.sleep(0.1)
            phases[BEFORE] = {"windows": windows_of(handle, job.seconds)}
            web = int(str(handle.url).rpartition(":")[2])
            phases[WEB] = _beset(handle, job, [web])
            slots = [port for port in ports() if port != web]
            phases[SLOTS] = _beset(handle, job, slots)
            phases[AFTER] = {"windows": windows_of(handle, job.seconds)}
            state = str(handle.state)
    return {"job": asdict(job), "ports": [web, *slots], "state": state, "phases": phases}


if __name__ == "__main__":
    if sys.argv[1] == "strangers":
        import resource

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1 << 16), hard))
        print(beset(json.loads(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
    else:
        Path(sys.argv[2]).write_text(json.dumps(run(Job(**json.loads(sys.argv[1])))), encoding="utf-8")
