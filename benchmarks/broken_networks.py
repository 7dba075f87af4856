"""Break the network of a small cluster in many ways, and print when windows are committed again.

    PYTHONPATH=tests .venv/bin/python -m benchmarks.broken_networks --seconds 10 60 --rounds 2 [--store]

Each round starts a standalone cluster of two hosts, which are network namespaces of this machine, and an
application with default times. It breaks the network for so many seconds and mends it, one way after the
other. It takes the longest time without a commit, and the time from the mend to the next one. With
`--store` the network to an S3 store (SeaweedFS) breaks in the place of that between hosts.
At the end of a round the output is compared with that of a plain loop. It needs root, iproute2 and the
folder `tests`; a round takes a minute and a half for each way with 10 and 60 seconds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from support.crash.breaks import BREAKS
from support.crash.hosts import Cluster
from support.crash.on_cluster import Run
from support.crash.on_store import OnStore
from support.crash.processes import Driver
from support.waiting import wait_until

STORE = {"the store refuses": False, "the store is silent": True}
Found = dict[tuple[str, float], list[tuple[float, float]]]
"""By way and seconds: of each round the longest time without a commit, and that after it was mended."""


def main() -> None:
    """Read the options, break, print the table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--seconds", type=float, nargs="+", default=[10.0, 60.0])
    asked.add_argument("--rounds", type=int, default=2)
    asked.add_argument("--only", nargs="*", choices=[*BREAKS, *STORE], help="the ways, by their names")
    asked.add_argument("--store", action="store_true", help="break the network to the store")
    given = asked.parse_args()
    ways = given.only or list(STORE if given.store else BREAKS)
    found: Found = {}
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory(prefix="break-") as folder:
            (on_store if given.store else on_hosts)(ways, given.seconds, Path(folder), found)
    print(f"{'broken':<22}{'for s':>6}  {'without a commit, s':<22}next commit after it was mended, s")
    for (name, seconds), took in found.items():
        longest, after = (", ".join(f"{one:.1f}" for one in column) for column in zip(*took, strict=True))
        print(f"{name:<22}{seconds:>6g}  {longest:<22}{after}", flush=True)


def on_hosts(ways: list[str], lasting: list[float], folder: Path, found: Found) -> None:
    """One round between hosts."""
    drivers: list[Driver] = []

    def start(*arguments: object) -> Driver:
        drivers.append(Driver([str(one) for one in arguments], folder / "run.log"))
        return drivers[-1]

    with Cluster(folder, ["alpha", "beta"]) as cluster:
        try:
            run = Run(cluster, start, wait_until, folder, None, more=["beta"], timeout=None)
            run.says("slot . is there", 3)
            for name in ways:
                for seconds in lasting:
                    run.continues()
                    with BREAKS[name](cluster):
                        longest, last = _watch(seconds, lambda: run.committed)
                    took = _after(longest, last, lambda: run.committed, run.wait)
                    _note(found, name, seconds, took)
                    run.wait(lambda: run.slots() == (3, 3), "all slots")
            run.continues()
            run.finish(folder)
        finally:
            for driver in drivers:
                driver.clean()


def on_store(ways: list[str], lasting: list[float], folder: Path, found: Found) -> None:
    """One round with a store."""
    from support import services

    drivers: list[Driver] = []

    def start(*arguments: object, log: str, **environment: str) -> Driver:
        drivers.append(Driver([str(one) for one in arguments], folder / log, **environment))
        return drivers[-1]

    with services.seaweedfs() as store:
        try:
            run = OnStore(start, wait_until, store, folder)
            for name in ways:
                for seconds in lasting:
                    run.continues()
                    store.cut(hang=STORE[name])
                    longest, last = _watch(seconds, lambda: run.windows)
                    store.mend()
                    _note(found, name, seconds, _after(longest, last, lambda: run.windows, run.wait))
            run.continues()
            run.finish()
        finally:
            for driver in drivers:
                driver.clean()


def _note(found: Found, name: str, seconds: float, took: tuple[float, float]) -> None:
    found.setdefault((name, seconds), []).append(took)
    print(f"{name}, {seconds:g} s: {took[0]:.1f} s without a commit, {took[1]:.1f} s after it", flush=True)


def _watch(seconds: float, committed: Callable[[], int]) -> tuple[float, float]:
    """Look at commits for so long: the longest time without one, and when the last one was."""
    end, longest = time.monotonic() + seconds, 0.0
    last, windows = time.monotonic(), committed()
    while (now := time.monotonic()) < end:
        if (found := committed()) != windows:
            longest, last, windows = max(longest, now - last), now, found
        time.sleep(0.05)
    return longest, last


def _after(
    longest: float, last: float, committed: Callable[[], int], wait: Callable[[Callable[[], bool], str], None]
) -> tuple[float, float]:
    """Wait for the next commit: the longest time without one, and how long it took from now."""
    mended, before = time.monotonic(), committed()
    wait(lambda: committed() > before, "a commit")
    now = time.monotonic()
    return max(longest, now - last), now - mended


if __name__ == "__main__":
    main()
