"""Jars for tests that Spark lacks, from Maven Central by `mvn`, kept in the user's cache folder."""

import os
import shutil
import subprocess
import uuid
import zlib
from pathlib import Path

import pytest

_SECONDS = 540


def jars(name):
    """The paths of the jars for `tests/support/NAME.xml`; skips the test where they cannot be downloaded."""
    pom = Path(__file__).with_name(f"{name}.xml")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "ridgeline", "test-jars")
    folder = cache / f"{name}-{zlib.crc32(pom.read_bytes()):08x}"
    if not folder.is_dir():
        _resolve(pom, folder)
    return sorted(folder.glob("*.jar"))


def class_path(name):
    """The jars as one class path, for `spark.driver.extraClassPath` or `java -cp`."""
    return os.pathsep.join(map(str, jars(name)))


def _resolve(pom, folder):
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"the jars of {pom.name} need Maven, and there is no `mvn` on the PATH")
    # Beside the folder, then renamed: an interrupted process leaves nothing that looks whole, and two may do
    # it at once.
    hidden = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    hidden.mkdir(parents=True)
    command = [
        maven,
        "-q",
        "-B",
        "-f",
        str(pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={hidden}",
        "-DincludeScope=runtime",
    ]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
        if ran.returncode:
            pytest.skip(f"Maven could not resolve the jars of {pom.name}: {(ran.stdout + ran.stderr)[:500]}")
        if not folder.is_dir():
            hidden.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was faster
            raise
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
