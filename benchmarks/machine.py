"""What the figures were measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from benchmarks.processes import ROOT

PACKAGES = ("ridgeline", "pyspark", "pyarrow", "numpy", "pandas", "bytewax", "polars", "orjson")


def describe() -> dict[str, object]:
    """Processor, memory, versions, commit, and how busy the machine is before the first benchmark."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "cores_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": _memory(),
        "kernel": platform.platform(),
        "python": platform.python_version(),
        "java": _java(),
        "packages": {name: _version(name) for name in PACKAGES},
        "load_at_start": [round(load, 2) for load in os.getloadavg()],
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed_since_commit": bool(_git("status", "--porcelain", "--", "src", "benchmarks")),
    }


def one_line(machine: dict[str, object]) -> str:
    """The description in one line."""
    memory = f"{float(str(machine['memory_bytes'])) / 2**30:.0f} GB" if machine["memory_bytes"] else "? GB"
    packages = machine["packages"]
    spark = packages["pyspark"] if isinstance(packages, dict) else None
    busy = f"load {machine['load_at_start'][0]}" if isinstance(machine["load_at_start"], list) else ""
    commit = f"commit {machine['commit'] or '?'}{' and changes' if machine['changed_since_commit'] else ''}"
    versions = f"Python {machine['python']}, Java {machine['java'] or '?'}, Spark {spark}"
    return f"{machine['processor']}, {machine['cores_usable']} cores, {memory}, {versions}, {busy}, {commit}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", info.read_text(), re.MULTILINE) if info.exists() else []
    return str(names[0]) if names else platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _java() -> str | None:
    from ridgeline.api.errors import RidgelineError
    from ridgeline.engine.spark.java import find_java

    try:
        find_java()
    except RidgelineError:
        return None
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None:
        return None
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', said)
    return found.group(1) if found else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    try:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
