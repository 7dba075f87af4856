"""Runs seeds: `17` step by step, `0:20000` in two processes, `17 --shrink` makes a test of one that fails."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from support.simulation.process import ViolationError
from support.simulation.region_world import RegionCase
from support.simulation.search import as_test, failure, report, shrunk
from support.simulation.world import Case, simulate

PIECE = 100
_SHOWN = 10


KINDS = {
    "regions": (RegionCase.of, "of several regions with queues between them"),
    "rewinds": (Case.rewinding, "with rewinds of the run"),
    "speculation": (Case.speculating, "with a spare slot"),
    "changes": (Case.changing, "with changes of the plan"),
}
"""Options, and what makes the case of a seed then."""


def run_seeds(of: Callable[[int], Case], begin: int, end: int) -> list[tuple[int, str]]:
    """The seeds that fail, and what they violate. Does not look again at what was there before."""
    _freeze()
    try:
        return _run_piece(of, begin, end)
    finally:
        gc.enable()
        gc.unfreeze()


def _freeze() -> None:
    """Let collections look at nothing that is there now, and begin only when they are called."""
    gc.collect()
    gc.freeze()
    gc.disable()


def _run_piece(of: Callable[[int], Case], begin: int, end: int) -> list[tuple[int, str]]:
    violated = [(seed, failure(of(seed))) for seed in range(begin, end)]
    gc.collect()
    return [(seed, what) for seed, what in violated if what]


def run_many(of: Callable[[int], Case], begin: int, end: int, processes: int = 2) -> list[tuple[int, str]]:
    """As `run_seeds`, in several processes."""
    begins = range(begin, end, PIECE)
    with ProcessPoolExecutor(processes, initializer=_freeze) as pool:
        ends = [min(first + PIECE, end) for first in begins]
        pieces = pool.map(partial(_run_piece, of), begins, ends)
        return [failed for piece in pieces for failed in piece]


def main() -> int:
    """Run what the command line says; 1 if a seed fails."""
    parser = argparse.ArgumentParser(prog="python -m support.simulation", description=__doc__)
    parser.add_argument("seeds", help="one seed, or FIRST:END")
    parser.add_argument("--shrink", action="store_true", help="make the case small and print it as a test")
    for name, (_, told) in KINDS.items():
        parser.add_argument(f"--{name}", action="store_true", help=told)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    first, _, end = given.seeds.partition(":")
    of = next((of for name, (of, _) in KINDS.items() if getattr(given, name)), Case.of)
    if end:
        return _many(int(first), int(end), given.processes, of)
    case = of(int(first))
    if given.shrink:
        print(as_test(shrunk(case)) if failure(case) else f"seed {first} does not fail")
        return 0
    try:
        simulate(case, partial(print, flush=True))
    except ViolationError as error:
        print(error)
        return 1
    return 0


def _many(first: int, end: int, processes: int, of: Callable[[int], Case]) -> int:
    began = time.monotonic()
    failed = run_many(of, first, end, processes)
    for seed, violated in failed[:_SHOWN]:
        print(seed, violated.partition("\n")[0][:160])
    print(f"{end - first} seeds in {time.monotonic() - began:.1f} s, {len(failed)} failed")
    if failed:
        print(report(of(failed[0][0])))
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
