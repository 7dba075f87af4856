"""HDFS on this machine, in one Java process, and the `libhdfs` by which pyarrow reaches it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Self

import pyspark
import pytest

from ridgeline.testing.services.parts.part import cache_folder
from support.accounts.reports import Command
from support.jars import class_path
from support.waiting import wait_until

_JARS = Path(pyspark.__file__).parent / "jars"
_SOURCE = Path(__file__).with_name("Hdfs.java")
_CRATE = "hdfs-sys"
_VERSION = "0.3.1"
"""A package of Rust that has Hadoop's sources of `libhdfs` in it: no package of Python or Java has them."""


class Hdfs:
    """A cluster whose files lie in `folder`. Skips where its jars or a compiler cannot be had."""

    def __init__(self, folder: Path) -> None:
        for word in ("javac", "cc", "cargo"):
            if shutil.which(word) is None:
                pytest.skip(f"HDFS of tests is built from sources, and there is no `{word}` on the PATH")
        self.folder = folder
        self._library = _library()
        of_spark = [path for name in ("log4j-*.jar", "commons-lang3-*.jar") for path in _JARS.glob(name)]
        clients = [path for name in ("hadoop-client-*.jar", "slf4j-api-*.jar") for path in _JARS.glob(name)]
        self._clients = os.pathsep.join(map(str, [folder / "conf", *clients, *of_spark]))
        self._jars = os.pathsep.join([class_path("yarn"), *map(str, of_spark)])

    def __enter__(self) -> Self:
        (self.folder / "conf").mkdir(parents=True)
        (self.folder / "conf/core-site.xml").write_text("<configuration/>")
        log, made = self.folder / "hdfs.log", self.folder / "uri"
        words = ["java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", self._jars]
        with log.open("wb") as out:
            self.process = Command(
                [*words, _SOURCE, self.folder], log=log, cwd=self.folder, stdout=out, stderr=out
            )
        wait_until(lambda: made.exists() or self.process.poll() is not None, "HDFS")
        assert made.exists(), log.read_text(errors="replace")[-3000:]
        self.uri = made.read_text()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.clean()

    @property
    def environment(self) -> dict[str, str]:
        """What pyarrow needs to find it."""
        return {
            "ARROW_LIBHDFS_DIR": str(self._library),
            "CLASSPATH": self._clients,
            "JAVA_HOME": str(_java_home()),
            "LIBHDFS_OPTS": "-Xmx128m",
        }

    def shell(self, *words: str) -> bytes:
        """The answer of Hadoop's own shell, such as that to `-cat /out/*`."""
        command = ["java", "-cp", self._clients, "org.apache.hadoop.fs.FsShell", "-fs", self.uri, *words]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


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
