"""A Flink of our own on this machine: one JobManager, one TaskManager, and a job of `apps`.

Its jars come with the package `apache-flink-libraries`; `javac` of a JDK compiles the job.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

_SOURCES = Path(__file__).resolve().parent / "apps"
OPENS = (
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            "java.lang",
            "java.net",
            "java.io",
            "java.nio",
            "sun.nio.ch",
            "java.lang.reflect",
            "java.text",
            "java.time",
            "java.util",
            "java.util.concurrent",
            "java.util.concurrent.atomic",
            "java.util.concurrent.locks",
        )
    ),
)
_PATIENCE_SECONDS = 60.0
_PROMPT = {"execution.buffer-timeout.interval": "1ms"}
"""Tuples go on without waiting for a full buffer."""


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def home() -> Path:
    """The folder of Flink's jars. Raises RuntimeError if they, or a compiler for Java, are not there."""
    found = importlib.util.find_spec("pyflink")
    if found is None or not found.submodule_search_locations:
        raise RuntimeError("Flink is not here: pip install apache-flink-libraries")
    if shutil.which("javac") is None:
        raise RuntimeError("there is no `javac`: install a JDK")
    return Path(found.submodule_search_locations[0])


class Flink:
    """A session cluster in a folder. `jobs` end with it."""

    def __init__(self, folder: Path, slots: int, scheduler: str, job: str = "Rescale") -> None:
        self._folder = folder
        self._job = job
        self._port = _free_port()
        self._jars = ":".join(map(str, sorted((home() / "lib").glob("*.jar"))))
        self._processes: list[subprocess.Popen[bytes]] = []
        self.printed = folder / "printed.txt"
        """What the job's sink prints."""
        configuration = {
            "jobmanager": {
                "rpc": {"address": "127.0.0.1", "port": _free_port()},
                "bind-host": "127.0.0.1",
                "scheduler": scheduler,
                "memory": {"process": {"size": "1024m"}},
            },
            "taskmanager": {
                "bind-host": "127.0.0.1",
                "host": "127.0.0.1",
                "numberOfTaskSlots": slots,
                "memory": {"process": {"size": "1536m"}},
            },
            "rest": {"address": "127.0.0.1", "bind-address": "127.0.0.1", "port": self._port},
            "execution": {"checkpointing": {"interval": "1s", "dir": (folder / "checkpoints").as_uri()}},
        }
        (folder / "conf").mkdir()
        (folder / "conf" / "config.yaml").write_text(json.dumps(configuration), encoding="utf-8")
        self._jar = self._compiled()

    def __enter__(self) -> Self:
        """Start it. Raises RuntimeError if it does not come up."""
        runtime = "org.apache.flink.runtime"
        self._start(f"{runtime}.entrypoint.StandaloneSessionClusterEntrypoint", (), (), "jobmanager.txt")
        sizes = self._java(
            (), f"{runtime}.util.bash.BashJavaUtils", "GET_TM_RESOURCE_PARAMS", *self._where, extra=True
        )
        jvm, dynamic = [line.split(":", 1)[1].split() for line in sizes.splitlines()[-2:]]
        self._start(f"{runtime}.taskexecutor.TaskManagerRunner", jvm, dynamic, "printed.txt")
        self.wait(lambda: self.get("/overview")["slots-available"] > 0)
        return self

    def __exit__(self, *_error: object) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    @property
    def _where(self) -> tuple[str, ...]:
        return "--configDir", str(self._folder / "conf")

    def _compiled(self) -> Path:
        classes, source = self._folder / "classes", str(_SOURCES / f"{self._job}.java")
        subprocess.run(["javac", "-cp", self._jars, "-d", str(classes), source], check=True)
        jar = self._folder / "job.jar"
        subprocess.run(["jar", "cf", str(jar), "-C", str(classes), "."], check=True)
        return jar

    def _start(self, main: str, jvm: Any, arguments: Any, log: str) -> None:
        command = ["java", *jvm, *OPENS, "-cp", self._jars, main, *self._where, *arguments]
        with (self._folder / log).open("wb") as output, (self._folder / f"{log}.err").open("wb") as errors:
            self._processes.append(subprocess.Popen(command, stdout=output, stderr=errors))

    def _java(self, jvm: Any, main: str, *arguments: str, extra: bool = False) -> str:
        jars = f"{self._jar}:{self._jars}" + (f":{home()}/bin/bash-java-utils.jar" if extra else "")
        command = ["java", *jvm, *OPENS, "-cp", jars, main, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return done.stdout

    def submit(self, *arguments: object, **settings: object) -> str:
        """Start the job with these arguments, as a user's client does; returns its id."""
        given = [f"{name}={value}" for name, value in {**_PROMPT, **settings}.items()]
        cluster = "127.0.0.1", str(self._port), str(self._jar)
        return self._java((), self._job, *map(str, arguments), *cluster, *given).split()[-1]

    def get(self, path: str) -> Any:
        """What REST answers; {} with a count of 0 while nobody does."""
        return self.send("GET", path)

    def send(self, method: str, path: str, body: object = None) -> Any:
        """Ask by REST. Raises OSError."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", data, method=method)
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as answer:
            return json.loads(answer.read() or b"{}")

    def wait(self, there: Callable[[], bool]) -> None:
        """Wait until it is so. Raises TimeoutError."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, KeyError):
                if there():
                    return
            time.sleep(0.01)
        raise TimeoutError("Flink did not come that far")

    def savepoint_and_stop(self, job: str) -> str:
        """Stop a job with a savepoint; returns where it is."""
        folder = (self._folder / "savepoints").as_uri()
        asked = self.send("POST", f"/jobs/{job}/stop", {"targetDirectory": folder, "drain": False})
        path = f"/jobs/{job}/savepoints/{asked['request-id']}"
        self.wait(lambda: self.get(path)["status"]["id"] == "COMPLETED")
        return str(self.get(path)["operation"]["location"])

    def rescale(self, job: str, parallelism: int) -> None:
        """Have the adaptive scheduler give all but the source other numbers of partitions."""
        wanted = self.get(f"/jobs/{job}/resource-requirements")
        for vertex in wanted.values():
            vertex["parallelism"] = {"lowerBound": parallelism, "upperBound": parallelism}
        self.send("PUT", f"/jobs/{job}/resource-requirements", wanted)


@contextlib.contextmanager
def growth(file: Path) -> Iterator[list[float]]:
    """When a file grows, by the monotonic clock, looked at every half millisecond, while the block runs."""
    times: list[float] = []
    over = threading.Event()

    def look() -> None:
        size = -1
        while not over.is_set():
            found = file.stat().st_size if file.exists() else -1
            if found != size:
                times.append(time.monotonic())
                size = found
            time.sleep(0.0005)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield times
    finally:
        over.set()
        thread.join()
