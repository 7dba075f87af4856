"""Break the network of a small cluster in many ways, and print when windows are committed again.

    PYTHONPATH=tests .venv/bin/python scripts/break_networks.py --seconds 10 60 --rounds 2 [--store]

Each round starts a standalone cluster of two hosts, which are network namespaces of this machine, and an
application with default times. It breaks the network for so many seconds, mends it and takes the time to
the next commit. With `--store` the network to an S3 store (moto) breaks in the place of that between hosts.
At the end of a round the output is compared with that of a plain loop. It needs root, iproute2 and the
folder `tests`; rounds take some minutes.
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

HUNG = {"store: refused": False, "store: silent": True}


def main() -> None:
    """Read the options, break, print the table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--seconds", type=float, nargs="+", default=[10.0, 60.0])
    asked.add_argument("--rounds", type=int, default=2)
    asked.add_argument("--only", nargs="*", help="the ways, by their names")
    asked.add_argument("--store", action="store_true", help="break the network to the store")
    given = asked.parse_args()
    ways = given.only or list(HUNG if given.store else BREAKS)
    print(f"{'broken':<24}{'for s':>6}  next commit after it was mended, s", flush=True)
    for name in ways:
        found: dict[float, list[float]] = {seconds: [] for seconds in given.seconds}
        for _ in range(given.rounds):
            with tempfile.TemporaryDirectory(prefix="break-") as folder:
                take = on_store if given.store else on_hosts
                for seconds, took in take(name, given.seconds, Path(folder)).items():
                    found[seconds].append(took)
        for seconds, took in found.items():
            print(f"{name:<24}{seconds:>6g}  " + ", ".join(f"{one:.1f}" for one in took), flush=True)


def on_hosts(name: str, lasting: list[float], folder: Path) -> dict[float, float]:
    """One round between hosts: by how long it was broken, the seconds to the next commit."""
    drivers: list[Driver] = []

    def start(*arguments: object) -> Driver:
        drivers.append(Driver([str(one) for one in arguments], folder / "run.log"))
        return drivers[-1]

    with Cluster(folder, ["alpha", "beta"]) as cluster:
        try:
            run = Run(cluster, start, wait_until, folder, None, more=["beta"], timeout=None)
            run.says("slot . is there", 3)
            found = {}
            for seconds in lasting:
                run.continues()
                with BREAKS[name](cluster):
                    time.sleep(seconds)
                found[seconds] = _next_commit(lambda: run.committed, run.wait)
                run.wait(lambda: run.slots() == (3, 3), "all slots")
            run.continues()
            run.finish(folder)
            return found
        finally:
            for driver in drivers:
                driver.clean()


def on_store(name: str, lasting: list[float], folder: Path) -> dict[float, float]:
    """One round with a store."""
    from ridgeline.testing import services

    drivers: list[Driver] = []

    def start(*arguments: object, log: str, **environment: str) -> Driver:
        drivers.append(Driver([str(one) for one in arguments], folder / log, **environment))
        return drivers[-1]

    with services.moto() as store:
        try:
            run = OnStore(start, wait_until, store, folder)
            found = {}
            for seconds in lasting:
                run.continues()
                store.cut(hang=HUNG[name])
                time.sleep(seconds)
                store.mend()
                found[seconds] = _next_commit(lambda: run.windows, run.wait)
            run.continues()
            run.finish()
            return found
        finally:
            for driver in drivers:
                driver.clean()


def _next_commit(committed: Callable[[], int], wait: Callable[[Callable[[], bool], str], None]) -> float:
    """Seconds from now to the next commit."""
    mended, before = time.monotonic(), committed()
    wait(lambda: committed() > before, "a commit")
    return time.monotonic() - mended


if __name__ == "__main__":
    main()
