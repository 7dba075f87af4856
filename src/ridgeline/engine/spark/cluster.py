"""Settings of Spark that depend on where it runs: sockets, logs and the number of executors."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping

from ridgeline.api.errors import RidgelineError

SOCKETS = "spark.python.unix.domain.socket.enabled"
SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
_LONGEST_FOLDER = 61
"""Spark's limit: every system takes socket paths of up to 104 bytes, and the socket's name has 43."""
_SHORT_FOLDER = "/tmp"  # noqa: S108  as Java's default; only their owner can connect to the sockets in it
_JVM_OPTIONS = (
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.executor.extraJavaOptions",
)
_JVM_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
SYNC_LOG_LEVEL = "spark.executor.syncLogLevel.enabled"
LOG_LEVEL = "ERROR"
_TRUE = "true"


def is_local(master: str) -> bool:
    """True where all workers are processes of this machine."""
    return master.startswith("local")


def socket_settings(
    master: str, given: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The folder of the sockets between Spark and Python, if Java's temporary folder is too long a path.

    On YARN it is in the folder of the container, with a path that is always too long.
    """
    if given.get(SOCKETS, _TRUE).lower() != _TRUE or SOCKET_FOLDER in given:
        return {}
    options = [
        *(given.get(name, "") for name in _JVM_OPTIONS),
        *(environment.get(name, "") for name in _JVM_VARIABLES),
    ]
    folders = re.findall(r"-Djava\.io\.tmpdir=(\S+)", " ".join(options))
    if not master.startswith("yarn") and all(len(folder.encode()) <= _LONGEST_FOLDER for folder in folders):
        return {}
    writable = os.access(_SHORT_FOLDER, os.W_OK | os.X_OK)
    return {SOCKET_FOLDER: _SHORT_FOLDER} if writable else {SOCKETS: "false"}


def log_settings(given: Mapping[str, str], *, submitted: bool) -> dict[str, str]:
    """Let Spark log errors only, so that operators' prints can be found. A user's settings of logs stay.

    A driver of ours has its settings in a file; executors of a cluster take the level that the driver sets,
    see `LOG_LEVEL`.
    """
    if "spark.log.level" in given or any("log4j" in given.get(name, "") for name in _JVM_OPTIONS):
        return {}
    level = {"spark.log.level": LOG_LEVEL} if submitted else {}
    return {SYNC_LOG_LEVEL: _TRUE, **level}


# Speculation ------------------------------------------------------------------------------------------------

_SPECULATION = "spark.speculation"
_THRESHOLD = "spark.speculation.task.duration.threshold"


def check_speculation(master: str, settings: Mapping[str, str]) -> None:
    """Refuse settings by which Spark starts a copy of each task that takes long, and ends one of both.

    Without a threshold it copies no task that is alone in its stage, as a slot is. Raises RidgelineError.
    """
    threshold = settings.get(_THRESHOLD, "")
    if is_local(master) and not master.startswith("local-cluster"):
        return  # where Spark copies nothing
    if settings.get(_SPECULATION, "").lower() == _TRUE and threshold:
        what = f"with `{_SPECULATION}=true` and `{_THRESHOLD}={threshold}` Spark starts long tasks twice"
        why = "slots are tasks that last as long as the application"
        raise RidgelineError(f"{what}; {why}; leave the threshold out, or give `--conf {_SPECULATION}=false`")


# Dynamic allocation -----------------------------------------------------------------------------------------

_DYNAMIC = "spark.dynamicAllocation.enabled"
_FEWEST = "spark.dynamicAllocation.minExecutors"
_MOST = "spark.dynamicAllocation.maxExecutors"


def allocation_settings(given: Mapping[str, str], widest: int) -> dict[str, str]:
    """With dynamic allocation: ask at the start for the executors that `widest` tasks keep busy.

    Spark itself asks when tasks have waited for a second, which those of a short window never do. A
    `minExecutors` of the user's stays.
    """
    if not is_dynamic(given) or _FEWEST in given:
        return {}
    slots = _slots_of_executor(given)
    wanted = math.ceil(widest / slots)
    return {_FEWEST: str(min(wanted, _number(given.get(_MOST), wanted)))}


def is_dynamic(settings: Mapping[str, str]) -> bool:
    """True if Spark starts and ends executors as tasks need them."""
    return settings.get(_DYNAMIC, "").lower() == _TRUE


def slots_to_come(settings: Mapping[str, str], widest: int) -> int:
    """How many tasks a stage may have: waiting tasks make Spark ask for executors. 0: fixed executors."""
    if not is_dynamic(settings):
        return 0
    most = _number(settings.get(_MOST), widest)
    return min(widest, most * _slots_of_executor(settings))


def is_on_request(master: str) -> bool:
    """True if executors are asked for one by one, and wait in the cluster's queue until it has room."""
    return master.startswith(("yarn", "k8s"))


def cores_allowed(master: str, settings: Mapping[str, str]) -> int | None:
    """How many tasks executors can run at most by their settings; None where that is not limited.

    YARN and Kubernetes give as many executors as are asked for: two by default.
    """
    of_executor = _slots_of_executor(settings)
    if is_dynamic(settings):
        most = settings.get(_MOST, "").strip()
        return int(most) * of_executor if most.isdigit() else None
    if is_on_request(master):
        return _number(settings.get("spark.executor.instances"), 2) * of_executor
    most = settings.get("spark.cores.max", "").strip()
    return int(most) // max(1, _number(settings.get("spark.task.cpus"), 1)) if most.isdigit() else None


def _slots_of_executor(settings: Mapping[str, str]) -> int:
    cores = _number(settings.get("spark.executor.cores"), 1)
    return max(1, cores // max(1, _number(settings.get("spark.task.cpus"), 1)))


def _number(text: str | None, default: int) -> int:
    """A number from Spark's settings, else the default; Spark itself refuses what is not a number."""
    return int(text) if text is not None and text.strip().isdigit() else default


def failure_settings(master: str) -> dict[str, str]:
    """On YARN and Kubernetes: Spark ends its application only after 1,000 failed executors within an hour.

    By default it does after two for each executor that it has, however long ago: an application that lives
    for months loses more. One whose executors die at their start still ends.
    """
    if not is_on_request(master):
        return {}
    return {"spark.executor.maxNumFailures": "1000", "spark.executor.failuresValidityInterval": "1h"}


def prints_place(master: str, application_id: str) -> str:
    """Where on a cluster operators' prints are found; "" where they reach the driver's standard error."""
    if is_local(master):
        return ""
    if master.startswith("yarn"):
        return f"`yarn logs -applicationId {application_id}`"
    if master.startswith("k8s"):
        return f"`kubectl logs -l spark-app-selector={application_id},spark-role=executor`"
    return (
        f"the workers' folders `work/{application_id}/*/stderr`, or the pages of the cluster's web interface"
    )


_YARN_ID = re.compile(r"application_\d+_\d+")


def is_yarn_id(text: str) -> bool:
    """Whether a text is the id of an application on YARN."""
    return _YARN_ID.fullmatch(text) is not None
