"""Runs seeds: `17` step by step, `0:20000` in two processes."""

from __future__ import annotations

import gc
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from support.simulation.process import ViolationError
from support.simulation.search import failure, report
from support.simulation.world import Case, simulate

PIECE = 250


def run_seeds(begin: int, end: int) -> list[tuple[int, str]]:
    """The seeds that fail, and what they violate."""
    gc.disable()
    found = []
    for seed in range(begin, end):
        if violated := failure(Case.of(seed)):
            found.append((seed, violated))
        if seed % 50 == 0:
            gc.collect()
    return found


def run_many(begin: int, end: int, processes: int = 2) -> list[tuple[int, str]]:
    """As `run_seeds`, in several processes."""
    begins = range(begin, end, PIECE)
    with ProcessPoolExecutor(processes) as pool:
        pieces = pool.map(run_seeds, begins, [min(first + PIECE, end) for first in begins])
        return [failed for piece in pieces for failed in piece]


def main(text: str) -> None:
    """Run what the command line says."""
    begin, _, end = text.partition(":")
    if not end:
        try:
            simulate(Case.of(int(begin)), partial(print, flush=True))
        except ViolationError as error:
            print(error)
            print(report(Case.of(int(begin))))
        return
    began = time.monotonic()
    failed = run_many(int(begin), int(end))
    seconds = time.monotonic() - began
    for seed, violated in failed:
        print(seed, violated.partition("\n")[0][:160])
    print(f"{int(end) - int(begin)} seeds in {seconds:.1f} s, {len(failed)} failed")
    if failed:
        print(report(Case.of(failed[0][0])))


if __name__ == "__main__":
    main(sys.argv[1])
