"""An archive of Spark's loaded classes, kept from one JVM start to the next: a start takes half the time.

The JVM maps such an archive when it starts. Started without one, it writes one when it ends (dynamic class
data sharing, Java 13 and newer). That takes it 20 s of CPU time or more, so of several JVMs that start
together only one does. The archive lies in the cache folder, some 70 MB, one for each Java, PySpark and
set of options. A JVM ignores an archive that is not of its class path or build. Old ones are removed.
"""

from __future__ import annotations

import os
import shutil
import warnings
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyspark

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import UntrustedError
from ridgeline.api.support import trust

SWITCH = "RIDGELINE_CLASS_ARCHIVE"
"""The environment variable that turns archives off: `off`."""
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Without these options the JVM's messages about archives go to standard output."""
_MAGIC_BYTES = 4
_KEPT = 4
"""How many archives are kept: those that were used last."""
_UNUSED_SECONDS = 3600.0
"""An archive that a start has used within this time is kept as well: its JVM may not have opened it yet."""
_WRITING_SECONDS = 60.0
"""What is not complete so long after it was written last was left by a JVM that was killed, or runs long."""


def archive_options(options: Sequence[str]) -> list[str]:
    """The options that have a JVM started with `options` use its archive, or write one if there is none yet.

    None where archives are switched off, the cache folder cannot be written, or (with a warning) others can
    write to it. None either while another JVM is to write the archive.
    """
    if os.environ.get(SWITCH) == "off":
        return []
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "ridgeline")
    key = (_java(), pyspark.__file__, pyspark.__version__, sorted(options))
    name = f"spark-{zlib.crc32(repr(key).encode()):08x}"
    archive = folder / f"{name}.jsa"
    refusal = (
        "the archive of Spark's classes",
        "set `XDG_CACHE_HOME` to a folder of your own; Spark starts without it",
    )
    try:
        trust.private_folder(str(folder), *refusal)
        _adopt(archive)
        trust.check(str(archive), *refusal)
        with suppress(FileNotFoundError):
            os.utime(archive)  # used now
        _remove_old(folder, archive)
        if archive.is_file():
            return [f"-XX:SharedArchiveFile={archive}", *_QUIET]
        written = _claim(archive)
    except UntrustedError as error:
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        return []
    except OSError:
        return []
    return [] if written is None else [f"-XX:ArchiveClassesAtExit={written}", *_QUIET]


def _claim(archive: Path) -> Path | None:
    """The file that this process's JVM is to write, as others can see; None if another one is at it."""
    pattern = f"{archive.stem}.*"
    if any(archive.parent.glob(pattern)):
        return None
    own = archive.with_suffix(f".{os.getpid()}")
    own.touch(mode=0o600)
    if min(archive.parent.glob(pattern)) != own:
        own.unlink(missing_ok=True)
        return None
    return own


def _java() -> tuple[str, int]:
    """Which Java it is: its real path, and when it was installed."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    real = found.resolve()
    return str(real), int(real.stat().st_mtime) if real.exists() else 0


def _adopt(archive: Path) -> None:
    """Take over what a JVM has written since, unless there is an archive.

    The first bytes of one are the last that the JVM writes.
    """
    for written in archive.parent.glob(f"{archive.stem}.*"):
        if written == archive:
            continue
        with suppress(FileNotFoundError), written.open("rb") as file:
            if any(file.read(_MAGIC_BYTES)) and not archive.is_file():
                written.replace(archive)
                archive.chmod(0o600)
            elif SystemClock().wall() - written.stat().st_mtime > _WRITING_SECONDS:
                written.unlink()


def _remove_old(folder: Path, present: Path) -> None:
    """Remove archives that were not used for long, the `present` one and the last ones excepted.

    Several processes may do so at once. A JVM that has mapped one keeps it; who misses it starts without.
    """
    used: list[tuple[float, Path]] = []
    for path in folder.glob("spark-*"):
        with suppress(FileNotFoundError):
            used.append((path.stat().st_mtime, path))
    oldest = SystemClock().wall() - _UNUSED_SECONDS
    for at, path in sorted(used, reverse=True)[_KEPT:]:
        if at < oldest and path != present:
            path.unlink(missing_ok=True)
