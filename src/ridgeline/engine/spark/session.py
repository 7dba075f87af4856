"""Spark for Ridgeline: the settings that matter."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

import ridgeline
from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError, UntrustedError
from ridgeline.api.support import trust
from ridgeline.api.support.masking import holds_secret
from ridgeline.api.support.secret_names import is_secret
from ridgeline.engine import accept_pandas_3
from ridgeline.engine.process import log_channel
from ridgeline.engine.process.hidden_modules import hint
from ridgeline.engine.spark.cluster import (
    LOG_LEVEL,
    SOCKETS,
    SYNC_LOG_LEVEL,
    allocation_settings,
    failure_settings,
    is_local,
    log_settings,
    socket_settings,
)
from ridgeline.engine.spark.cores import EXTRA_CORES, local_cores, with_retries
from ridgeline.engine.spark.java import HeldOutput, check_open_files, chosen_java, find_java, why
from ridgeline.engine.spark.s3 import s3a_from_environment
from ridgeline.engine.spark.submitted import submitted

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext


# An archive of Spark's loaded classes, kept from one JVM start to the next: a start takes half the time.
#
# The JVM maps such an archive when it starts. Started without one, it writes one when it ends (dynamic class
# data sharing, Java 13 and newer). That takes it 20 s of CPU time or more, so of several JVMs that start
# together only one does. The archive lies in the cache folder, some 70 MB, one for each Java, PySpark and
# set of options. A JVM ignores an archive that is not of its class path or build. Old ones are removed.

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
    real = Path(chosen_java()).resolve()
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


# No Java process outlives a driver that was killed: a guard ends it, if it does not end by itself.
#
# Java ends when its standard input does, so with the driver. But it may take long over it: it stops Spark,
# and writes its archive of classes for 20 s or more. That is right after an end in order, and harmful after
# a kill: the next driver needs the cores. The guard is a shell that waits for the end of a pipe from the
# driver.

GRACE_SECONDS = 5
"""How long a Java process may take to end after a driver that was killed."""
_SCRIPT = """
trap '' TERM INT HUP
started() { cut -d' ' -f22 "/proc/$1/stat" 2>/dev/null; }
known=$(started "$1")
read -r said && [ "$said" = done ] && exit 0
for second in $(seq "$2"); do
    [ "$(started "$1")" = "$known" ] || exit 0
    sleep 1
done
[ "$(started "$1")" = "$known" ] && kill -9 "$1"
"""
_guards: dict[int, subprocess.Popen[bytes]] = {}
"""The guards, by the process that each guards."""


def guard(context: SparkContext) -> None:
    """Have the Java process of this context end with this process, however this one ends; Linux only."""
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is None or process.pid in _guards or not sys.platform.startswith("linux"):
        return
    command = ["sh", "-c", _SCRIPT, "ridgeline-guard", str(process.pid), str(GRACE_SECONDS)]
    with contextlib.suppress(OSError):  # there is no shell: Java ends in its own time
        _guards[process.pid] = subprocess.Popen(  # noqa: S603  a constant, and numbers
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


def _ends_in_order(own: int = os.getpid()) -> None:
    """Send all guards home."""
    for shell in _guards.values() if os.getpid() == own else ():
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            shell.communicate(b"done\n", 1.0)


atexit.register(_ends_in_order)


_SETTINGS = {
    "spark.python.daemon.module": "ridgeline.engine.spark.daemon",
    SOCKETS: "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark remembers jobs, stages and tasks for its UI: by default enough for the heap to grow over 25,000
    # windows.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.locality.wait": "0",
    "spark.shuffle.compress": "false",
    "spark.sql.streaming.stopTimeout": "20000",
}
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_LOCAL_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_LOCAL_FILES = "org.apache.hadoop.fs.RawLocalFileSystem"
"""Without a hidden `.crc` file beside each file of Spark's logs: 7 ms a window."""


SAFE_PATH, SAFE_PATH_VALUE = "PYTHONSAFEPATH", "ridgeline"
"""Workers, started by `python -m`, import nothing from where the command ran: the driver does not either."""
PRELOAD = "RIDGELINE_PRELOAD"
"""The environment variable with the modules that the daemon imports before it forks, separated by commas."""
_NOISE = (
    b"WARNING: Using incubator modules",
    b"Setting default log level to",
    b"To adjust logging level use",
    b"WARNING: package sun.",
)


@contextlib.contextmanager
def quiet_stderr(held: HeldOutput | None = None) -> Iterator[None]:
    """Filter the standard error of processes started in this block: drop what every Spark start prints.

    The output of operators still reaches the terminal. `held` keeps what a Java that fails says.
    """
    writing = _forward_to(2, "ridgeline-stderr", _NOISE, held)
    saved = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _forward_to(descriptor: int, name: str, noise: tuple[bytes, ...], held: HeldOutput | None) -> int:
    """The writing end of a pipe whose lines a thread copies to `descriptor`, without `noise`.

    Nor what `held` keeps.
    """
    real = os.dup(descriptor)
    reading, writing = os.pipe()

    def forward() -> None:
        with os.fdopen(reading, "rb") as lines, os.fdopen(real, "wb", buffering=0) as out:
            for line in lines:
                if not line.startswith(noise) and (held is None or not held.hold(line)):
                    out.write(line)

    thread = threading.Thread(target=forward, name=name, daemon=True)
    if held is not None:
        held.read_by(thread)
    thread.start()
    return writing


@contextlib.contextmanager
def independent_java(held: HeldOutput | None = None) -> Iterator[None]:
    """Let the Java process that PySpark starts in this block ignore SIGTERM, as it does Ctrl-C.

    Who stops a service sends SIGTERM to all its processes (systemd, `timeout`), and Java would end in the
    middle of the window. Nor does it hold our standard output. Java may write its archive of classes for
    20 s after our end, and a pipe such as `ridgeline run ... | tee log` would stay open so long.
    `held`: as of `quiet_stderr`.
    """
    from pyspark import java_gateway

    gateway: Any = java_gateway
    start = gateway.Popen
    out = _forward_to(1, "ridgeline-stdout", (), held)

    def start_independent(command: Any, **options: Any) -> Any:
        prepare = options.pop("preexec_fn", None)

        def ignore() -> None:
            if prepare is not None:
                prepare()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        return start(command, preexec_fn=ignore, **{"stdout": out, **options})

    gateway.Popen = start_independent
    try:
        yield
    finally:
        gateway.Popen = start
        os.close(out)


def start_context(
    application: str,
    master: str,
    conf: Mapping[str, str],
    *,
    streaming: bool,
    local_checkpoint: bool,
    widest: int = 1,
    slots: int = 0,
    least: int = 0,
) -> SparkContext:
    """Start a SparkContext (it takes seconds).

    `streaming`: there is a Spark source; `widest`: how many tasks may run at a time. `slots`: how many task
    slots `local[N]` gets beside its own N: at most N, and `least` in any case.

    Settings in `conf` win over those of the `spark-submit` that started this process, and those over ours.
    Raises RidgelineError if there is no Java, if Spark Connect is asked for, or if Spark does not start.
    """
    if master.startswith("sc://") or os.environ.get("SPARK_REMOTE"):
        msg = "Spark Connect is not supported: slots are RDD jobs, which need a classic driver; "
        msg += "give a `--master` such as local[*] or spark://host:7077"
        raise RidgelineError(msg)
    under_submit = submitted()
    if not under_submit:
        check_open_files()
        find_java()
    accept_pandas_3()
    try:
        from pyspark import SparkConf
    except ImportError as error:
        if not (hidden := hint(error)):
            raise
        raise RidgelineError(f"pyspark cannot be imported: {error}; {hidden}") from error

    given = {**under_submit, **conf}
    os.environ["PYSPARK_PYTHON"] = (
        conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    )
    _put_on_pythonpath(str(Path(ridgeline.__file__).parent.parent))
    settings = _settings(master, given, streaming=streaming, local_checkpoint=local_checkpoint, widest=widest)
    if slots and not is_local(master):  # how many there are is decided once
        settings["spark.scheduler.minRegisteredResourcesRatio"] = "1.0"
    spark_conf = SparkConf().setAll(
        [(name, value) for name, value in settings.items() if name not in under_submit]
    )
    cores = local_cores(master)
    extra = 0 if cores is None else max(min(slots, cores), least)
    if extra:
        spark_conf.setAll([(EXTRA_CORES, str(extra)), ("spark.default.parallelism", str(cores))])
    spark_conf.setMaster(with_retries(master, extra)).setAppName(application)
    spark_conf.setAll([(name, value) for name, value in conf.items() if name != "spark.master"])
    return _begun(spark_conf, master)


def _begun(conf: SparkConf, master: str) -> SparkContext:
    """A context of these settings. Raises RidgelineError if it does not start."""
    from pyspark import SparkContext

    held = HeldOutput()
    try:
        with quiet_stderr(held), independent_java(held):
            _ensure_java(conf)
        context = SparkContext(conf=conf)
        _quiet_end(context)
        guard(context)
    except RidgelineError:
        raise
    except Exception as error:
        raise RidgelineError(why(error, held.text(), master)) from error
    os.write(2, held.release())
    return context


def _ensure_java(conf: SparkConf) -> None:
    """Start the Java process of a context with these settings, unless it runs.

    All users of the host can read Java's command line. So it gets secrets by a file of this user, which is
    there until Java has read it.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if getattr(SparkContext, "_gateway", None) is not None:
        return
    secrets = {name: value for name, value in conf.getAll() if is_secret(name) or holds_secret(name, value)}
    shown = SparkConf().setAll([(name, value) for name, value in conf.getAll() if name not in secrets])
    with _submitted_with(secrets):
        SparkContext._ensure_initialized(gateway=launch_gateway(shown))  # noqa: SLF001


@contextlib.contextmanager
def _submitted_with(secrets: Mapping[str, str]) -> Iterator[None]:
    """Let the `spark-submit` that PySpark starts read these settings, too."""
    if not secrets:
        yield
        return
    given = os.environ.get(_SUBMIT_ARGUMENTS)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.writelines(f"{_escaped(name)}={_escaped(value)}\n" for name, value in secrets.items())
        file.flush()
        read = f"--properties-file {shlex.quote(file.name)} --load-spark-defaults"
        os.environ[_SUBMIT_ARGUMENTS] = f"{read} {given or 'pyspark-shell'}"
        try:
            yield
        finally:
            if given is None:
                del os.environ[_SUBMIT_ARGUMENTS]
            else:
                os.environ[_SUBMIT_ARGUMENTS] = given


def _escaped(text: str) -> str:
    """A text as Java's properties have it, whatever is in it."""
    units = array("H", text.encode("utf-16-" + sys.byteorder[:1] + "e"))
    return "".join(f"\\u{unit:04x}" for unit in units)


def _quiet_end(context: SparkContext) -> None:
    """Silence PySpark's two tracebacks at the death of the Java process, which Ridgeline reports in one line.

    These are the server of accumulators, which are not used here, and py4j, which logs each call that is cut
    off to the root logger.
    """
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda _request, _address: None
    logging.getLogger().addFilter(_is_no_call_cut_off)


def _is_no_call_cut_off(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway" or not str(record.msg).startswith(
        "Exception while sending command"
    )


def quieten_executors(context: SparkContext) -> None:
    """Let the executors that have joined log errors only, unless the user gave settings of logs.

    Only once they have answered: an executor takes the level before it reads its own settings of logs, and
    never again (Spark 4.3).
    """
    if (
        not is_local(str(context.master))
        and context.getConf().get(SYNC_LOG_LEVEL) == "true"
        and not context.getConf().get("spark.log.level")
    ):
        context.setLogLevel(LOG_LEVEL)


def _put_on_pythonpath(home: str) -> None:
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if home not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, paths)])


def _settings(
    master: str, given: Mapping[str, str], *, streaming: bool, local_checkpoint: bool, widest: int
) -> dict[str, str]:
    """Ours, for what is given."""
    logs = log_settings(given, submitted=bool(submitted()))
    settings = {
        **_SETTINGS,
        **s3a_from_environment(),
        **socket_settings(master, given),
        **logs,
        **allocation_settings(given, widest),
        **failure_settings(master),
    }
    options = [f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}", "-Dlog4j2.disable.jmx=true"]
    if master.startswith("local-cluster"):
        settings["spark.executor.extraJavaOptions"] = options[0]
        settings["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    if os.environ.get(trust.SETTING):
        settings[f"spark.executorEnv.{trust.SETTING}"] = os.environ[trust.SETTING]
    if logged := log_channel.for_executors(same_host=is_local(master)):
        settings[f"spark.executorEnv.{log_channel.VARIABLE}"] = logged
    if streaming:
        options.append("-Xss16m")  # stopping a query inside foreachBatch overflows the stack otherwise
        if local_checkpoint:
            settings["spark.sql.streaming.checkpointFileManagerClass"] = _LOCAL_CHECKPOINTS
            settings["spark.hadoop.fs.file.impl"] = _LOCAL_FILES
    elif is_local(master):
        options += [
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
        ]  # the JVM only schedules: it starts faster so
    if is_local(master):
        settings[f"spark.executorEnv.{SAFE_PATH}"] = SAFE_PATH_VALUE
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        if "spark.driver.extraJavaOptions" not in given:
            options += archive_options(options)
    settings["spark.driver.extraJavaOptions"] = " ".join(options)
    return settings
