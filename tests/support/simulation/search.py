"""Looks for cases that fail, makes them small, and says how to run them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace

from support.simulation.changing import CHANGE
from support.simulation.process import ViolationError
from support.simulation.world import KINDS, REWIND, Case, simulate

TRIES = 300
"""So many smaller cases are tried at most."""


def failure(case: Case) -> str:
    """What a case violates, "" for nothing."""
    try:
        simulate(case)
    except ViolationError as error:
        return str(error)
    return ""


def first_failing(
    seeds: Iterable[int],
    kinds: Sequence[str] = KINDS,
    *,
    of: Callable[[int, Sequence[str]], Case] = Case.of,
) -> Case | None:
    """The first of these seeds' cases that fails, with faults of these kinds."""
    return next((case for case in (of(seed, kinds) for seed in seeds) if failure(case)), None)


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


def as_test(case: Case) -> str:
    """The source of a test that a case fails, for `tests/simulation/test_found.py`."""
    given = ", ".join(
        f"{one.name}={value!r}"
        for one in fields(case)
        if (value := getattr(case, one.name)) != one.default and one.name != "faults"
    )
    faults = "".join(
        f"        Fault({fault.moment}, {fault.kind!r}, {fault.number}),\n" for fault in case.faults
    )
    return (
        f"def test_seed_{case.seed}():  # {failure(case).partition(chr(10))[0]}\n"
        f"    faults = (\n{faults}    )\n"
        f'    assert failure(Case({given}, faults=faults)) == ""\n'
    )


def report(case: Case) -> str:
    """What a failing case violates, how to see it, and a test of it."""
    kinds = {fault.kind for fault in case.faults}
    changes = "--changes " * (CHANGE in kinds) + "--rewinds " * (REWIND in kinds)
    again = f"PYTHONPATH=tests python -m support.simulation {changes}{case.seed}"
    small = as_test(shrunk(case))
    return f"seed {case.seed}: {failure(case)}\nstep by step: {again}\nas a test:\n{small}"
