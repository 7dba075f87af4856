"""Looks for cases that fail, makes them small, and says how to run them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from support.simulation.process import ViolationError
from support.simulation.world import Case, simulate

TRIES = 300
"""So many smaller cases are tried at most."""


def failure(case: Case) -> str:
    """What a case violates, "" for nothing."""
    try:
        simulate(case)
    except ViolationError as error:
        return str(error)
    return ""


def first_failing(seeds: Iterable[int]) -> Case | None:
    """The first of these seeds' cases that fails."""
    return next((case for case in map(Case.of, seeds) if failure(case)), None)


def shrunk(case: Case) -> Case:
    """A smaller case that fails too: fewer faults, less to do."""
    tries = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(case):
            tries += 1
            if tries > TRIES:
                return case
            if failure(candidate):
                case, smaller = candidate, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with one thing less each."""
    for index in range(len(case.faults)):
        yield replace(case, faults=case.faults[:index] + case.faults[index + 1 :])
    if case.sources > 1:
        yield replace(case, sources=1)
    for total in (case.total // 2, case.total - 1):
        if 0 < total < case.total:
            yield replace(case, total=total)
    if case.slots > 1:
        yield replace(case, slots=case.slots - 1)
    if case.partitions > 2:
        yield replace(case, partitions=2)
    if case.in_flight > 2:
        yield replace(case, in_flight=case.in_flight - 1)
    if case.large:
        yield replace(case, large=0.0)


def report(case: Case) -> str:
    """What a failing case violates, and how to see it."""
    small = shrunk(case)
    again = f"PYTHONPATH=tests python -m support.simulation {case.seed}"
    return (
        f"seed {case.seed}: {failure(case)}\nagain, step by step: {again}\nsmall: {small!r}: {failure(small)}"
    )
