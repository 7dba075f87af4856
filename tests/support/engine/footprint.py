"""What a running application takes of its host: for tests that watch that it does not grow."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

COMPACTOR = "ridgeline.engine.driver.checkpoint.compactor"


class Footprint(NamedTuple):
    """`files`: of the checkpoint, but for state, which compactions remove now and then, and recordings."""

    files: int
    descriptors: int
    threads: int
    processes: int
    bytes: int


def footprint(checkpoint: Path) -> Footprint:
    """Of this process and all below it. Memory is that of Python: Java's collector has its own mind.

    The compactor's memory does not count: it starts again after each change of the plan. It has from 20 to
    80 MB, by how much it has compacted since. Two such samples differ by more than a leak.
    """
    gc.collect()
    found = Footprint(_files(checkpoint), 0, 0, 0, 0)
    for pid in [os.getpid(), *below(os.getpid())]:
        with contextlib.suppress(OSError):  # it has ended
            root = Path(f"/proc/{pid}")
            java = (root / "comm").read_text().strip() == "java"
            uncounted = java or COMPACTOR in (root / "cmdline").read_text().split("\0")
            found = found._replace(
                descriptors=found.descriptors + len(list((root / "fd").iterdir())),
                threads=found.threads + (0 if java else len(list((root / "task").iterdir()))),
                processes=found.processes + 1,
                bytes=found.bytes + (0 if uncounted else own_bytes(pid)),
            )
    return found


def _files(checkpoint: Path) -> int:
    kept = checkpoint / "recordings"  # people have asked for these
    return sum(
        path.is_file()
        and path.parent.name != "state"
        and (kept not in path.parents or "staged" in path.parts)
        for path in checkpoint.rglob("*")
    )


def below(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(after_name[1]), []).append(int(entry.name))
    found = list(parents.get(pid, ()))
    for one in found:
        found += parents.get(one, ())
    return found


def own_bytes(pid: int) -> int:
    """The memory that a process has filled, with its share of what it shares; 0 if it has ended.

    Not that of files: how many others read those is no matter of ours.
    """
    with contextlib.suppress(OSError):
        lines = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
        return sum(int(line[1]) for line in lines if line[0] in {"Pss_Anon:", "Pss_Shmem:", "SwapPss:"}) << 10
    return 0


def growth(seen: Sequence[Footprint]) -> Footprint:
    """From the middle third to the last one, each by its least but one: what comes and goes does not count.

    The least may be of a moment at which a process was just being replaced.
    """
    third = len(seen) // 3
    before, after = seen[-2 * third : -third], seen[-third:]
    low, last = ([sorted(values)[1] for values in zip(*part, strict=True)] for part in (before, after))
    return Footprint(*(now - then for now, then in zip(last, low, strict=True)))
