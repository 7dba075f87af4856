"""HDFS on this machine: a name node and a data node, a process each, and the `libhdfs` of pyarrow."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import pyspark
import pytest

from ridgeline.testing.services.parts import cache_folder
from support.accounts.reports import Command
from support.jars import class_path
from support.ports import free_port
from support.waiting import wait_until

_JARS = Path(pyspark.__file__).parent / "jars"
_NODES = "org.apache.hadoop.hdfs.server"
_NAME, _DATA = f"{_NODES}.namenode.NameNode", f"{_NODES}.datanode.DataNode"
_JAVA = ("java", "-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_CRATE = "hdfs-sys"
_VERSION = "0.3.1"
"""A package of Rust that has Hadoop's sources of `libhdfs` in it: no package of Python or Java has them."""


class Hdfs:
    """A cluster whose files lie in `folder`. Skips where its jars or a compiler cannot be had.

    `settings`: of `hdfs-site.xml`, besides its own. `options`: of its Java processes.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, object] | None = None,
        options: tuple[str, ...] = (),
        host: str = "127.0.0.1",
    ) -> None:
        for word in ("javac", "cc", "cargo"):
            if shutil.which(word) is None:
                pytest.skip(f"HDFS of tests is built from sources, and there is no `{word}` on the PATH")
        self.folder, self.options = folder, options
        self._library = _library()
        of_spark = [path for name in ("log4j-*.jar", "commons-lang3-*.jar") for path in _JARS.glob(name)]
        clients = [path for name in ("hadoop-client-*.jar", "slf4j-api-*.jar") for path in _JARS.glob(name)]
        self._clients = os.pathsep.join(map(str, [folder / "conf", *clients, *of_spark]))
        self._jars = os.pathsep.join([str(folder / "conf"), class_path("yarn"), *map(str, of_spark)])
        self.uri, self._web = f"hdfs://{host}:{free_port()}", f"{host}:{free_port()}"
        self._settings = {**self._own(), **(settings or {})}
        self.names: Command | None = None
        self.data: Command | None = None

    def _own(self) -> dict[str, object]:
        """Settings of a small cluster that starts again soon."""
        anywhere = "127.0.0.1:0"
        return {
            "fs.defaultFS": self.uri,
            "dfs.replication": 1,
            "dfs.permissions.enabled": "false",
            "dfs.namenode.name.dir": self.folder / "names",
            "dfs.namenode.http-address": self._web,
            "dfs.namenode.safemode.extension": 1000,
            "dfs.namenode.heartbeat.recheck-interval": 5000,
            "dfs.heartbeat.interval": 1,
            "dfs.datanode.data.dir": self.folder / "data",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.datanode.address": anywhere,
            "dfs.datanode.http.address": anywhere,
            "dfs.datanode.ipc.address": anywhere,
            "dfs.client.block.write.locateFollowingBlock.retries": 2,
        }

    def __enter__(self) -> Self:
        conf = self.folder / "conf"
        conf.mkdir(parents=True)
        fields = [
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in self._settings.items()
        ]
        for name in ("core-site.xml", "hdfs-site.xml"):
            (conf / name).write_text(f"<configuration>{''.join(fields)}</configuration>")
        log = self.folder / "format.log"
        with log.open("wb") as out:
            words = [*_JAVA, *self.options, "-cp", self._jars, _NAME, "-format", "-nonInteractive"]
            formatted = subprocess.run(words, stdout=out, stderr=out, check=False)
        assert formatted.returncode == 0, log.read_text(errors="replace")[-3000:]
        self.start_names()
        self.start_data()
        self.wait()
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self.names, self.data):
            if process is not None:
                process.clean()

    def start_names(self) -> None:
        """Start the name node, on the port that it had."""
        self.names = self._started(_NAME, "names.log")

    def start_data(self) -> None:
        """Start the data node."""
        self.data = self._started(_DATA, "data.log")

    def kill_names(self) -> None:
        """Kill the name node."""
        assert self.names is not None
        self.names.send_signal(signal.SIGKILL)
        self.names.clean()

    def wait(self) -> None:
        """Wait until files can be read and written."""
        wait_until(self._is_up, "HDFS", every=0.1)

    def _started(self, kind: str, log: str) -> Command:
        path = self.folder / log
        with path.open("ab") as out:
            words = [*_JAVA, *self.options, "-cp", self._jars, kind]
            return Command(words, log=path, cwd=self.folder, stdout=out, stderr=out)

    def _is_up(self) -> bool:
        for process, log in ((self.names, "names.log"), (self.data, "data.log")):
            assert process is None or process.poll() is None, (self.folder / log).read_text(errors="replace")[
                -3000:
            ]
        try:
            address = f"http://{self._web}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
            with urllib.request.urlopen(address, timeout=5) as answer:
                [found] = json.load(answer)["beans"]
        except (OSError, ValueError):
            return False
        # A data node that has only registered gets no block: first it must say what room it has.
        return bool(found["FSState"] == "Operational" and found["CapacityRemaining"] > 0)

    def put(self, path: str, data: bytes) -> None:
        """Write a file by HTTP, as any client may, under another name at first."""
        self.ask(f"{path}._COPYING_", "CREATE&overwrite=true", "PUT", data)
        self.ask(f"{path}._COPYING_", f"RENAME&destination={path}", "PUT")

    def read(self, path: str) -> bytes:
        """A file, by HTTP."""
        return self.ask(path, "OPEN")

    def files(self, folder: str) -> list[str]:
        """The names of the files in a folder, but for hidden ones; none if it is not there."""
        try:
            found = json.loads(self.ask(folder, "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return []
            raise
        names = [one["pathSuffix"] for one in found if one["type"] == "FILE"]
        return sorted(name for name in names if not name.startswith("."))

    def ask(self, path: str, what: str, method: str = "GET", data: bytes | None = None) -> bytes:
        """Ask by HTTP: the name node, which sends to the data node. Raises OSError."""
        address = (
            f"http://{self._web}/webhdfs/v1{path}?op={what}&noredirect=true&user.name={getpass.getuser()}"
        )
        answer = _asked(address, method)
        place = json.loads(answer).get("Location") if what.startswith(("CREATE", "OPEN")) else None
        return answer if place is None else _asked(place, method, data)

    @property
    def environment(self) -> dict[str, str]:
        """What pyarrow needs to find it."""
        return {
            "ARROW_LIBHDFS_DIR": str(self._library),
            "CLASSPATH": self._clients,
            "JAVA_HOME": str(_java_home()),
            "LIBHDFS_OPTS": " ".join(["-Xmx128m", *self.options]),
        }

    def shell(self, *words: str, **environment: str) -> bytes:
        """The answer of Hadoop's own shell, such as that to `-cat /out/*`."""
        command = [
            "java",
            *self.options,
            "-cp",
            self._clients,
            "org.apache.hadoop.fs.FsShell",
            "-fs",
            self.uri,
            *words,
        ]
        ran: Any = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, env={**os.environ, **environment}
        )
        return bytes(ran.stdout)


def _asked(address: str, method: str, data: bytes | None = None) -> bytes:
    headers = {"Content-Type": "application/octet-stream"}
    request = urllib.request.Request(address, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            read: bytes = answer.read()
    except urllib.error.HTTPError as error:
        error.add_note(error.read().decode(errors="replace"))
        raise
    return read


def _java_home() -> Path:
    return Path(shutil.which("javac") or "").resolve().parent.parent


def _library() -> Path:
    """The folder of `libhdfs.so`: `ARROW_LIBHDFS_DIR`, or the one that is built here once."""
    if given := os.environ.get("ARROW_LIBHDFS_DIR"):
        return Path(given)
    folder = cache_folder() / f"libhdfs-{_VERSION}"
    if not (folder / "libhdfs.so").exists():
        _build(folder)
    return folder


def _build(folder: Path) -> None:
    """Download the sources and compile them."""
    work = folder.with_name(f"{folder.name}.{os.getpid()}")
    (work / "src").mkdir(parents=True)
    (work / "src/lib.rs").touch()
    (work / "config.h").write_text("#define HAVE_BETTER_TLS\n")
    head = '[package]\nname = "libhdfs"\nversion = "0.0.0"\nedition = "2021"\n'
    (work / "Cargo.toml").write_text(f'{head}[dependencies]\n{_CRATE} = "={_VERSION}"\n')
    java = _java_home()
    try:
        subprocess.run(
            ["cargo", "-q", "vendor", "--versioned-dirs", "vendored"],
            cwd=work,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        sources = work / f"vendored/{_CRATE}-{_VERSION}/libhdfs/hdfs_3_3"
        headers = [work, sources, *(sources / name for name in ("include", "os", "os/posix"))]
        headers += [java / "include", java / "include/linux"]
        files = [path for path in sources.rglob("*.c") if "windows" not in path.parts]
        machine = java / "lib/server"
        words = ["cc", "-shared", "-fPIC", "-O2", "-w", "-o", work / "libhdfs.so", *files]
        words += [f"-I{path}" for path in headers]
        subprocess.run([*words, f"-L{machine}", "-ljvm", "-lpthread", f"-Wl,-rpath,{machine}"], check=True)
        folder.mkdir(exist_ok=True)
        (work / "libhdfs.so").replace(folder / "libhdfs.so")
    finally:
        shutil.rmtree(work, ignore_errors=True)
