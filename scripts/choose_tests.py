"""Measure tests, and choose from it which of them `make test` runs: before a release, or if it takes long.

    make VENV=build/py312 PYTHON=python3.12 build/py312/.dev    # lines are counted by Python 3.12 or newer
    build/py312/bin/python scripts/choose_tests.py measure      # quick tests: an hour on one quiet core
    build/py312/bin/python scripts/choose_tests.py choose       # writes tests/tiers/deep.txt, seconds.txt

`measure` runs pytest in one process. It notes for each test its seconds of a core (of its processes too) and
the lines of `src` that it reaches. Arguments are those of pytest: `measure tests/plan`, or
`measure -m "spark and not slow" tests` for tests that are not quick, whose seconds alone count. Each call
adds to what earlier ones have measured (`build/measured/`); remove the folder to begin again.

`choose` keeps what is cheap or pinned. Of the others it takes the test that reaches most new lines a second,
until 99 % of all lines are reached. The rest is deep. It changes no entry of a test that was not measured.
"""

from __future__ import annotations

import heapq
import json
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from typing import Any

import numpy as np

import check_tests

ROOT = check_tests.ROOT
MEASURED = ROOT / "build" / "measured"
QUICK = "not (lint or spark or slow or crash or server or alone)"

CHEAP_SECONDS = 0.02
"""A test that takes less stays in the core."""

SAVES_SECONDS = 0.05
"""An entry of the list saves at least so much."""

NOTED_SECONDS = 0.3
"""Functions that take less are not in `seconds.txt`."""

PART = 0.99
"""Of the lines that all measured tests reach: that many are reached by the core."""


# ------------------------------------------------------------------------------ measuring: a plugin of pytest


class Meter:
    """Notes what each test takes and reaches."""

    def __init__(self) -> None:
        self._reached: set[tuple[str, int]] = set()
        MEASURED.mkdir(parents=True, exist_ok=True)
        self._file = (MEASURED / f"{time.time_ns()}.jsonl").open("w", 1, encoding="utf-8")
        self._monitoring: Any = getattr(sys, "monitoring", None)
        if self._monitoring is None:
            print("lines are not counted: this needs Python 3.12", file=sys.stderr)
        else:
            self._begin()

    def _begin(self) -> None:
        """Have each line of `src` told once a test; `restart_events` begins the next test."""
        monitoring, source = self._monitoring, str(ROOT / "src") + os.sep
        tool, events, off = monitoring.COVERAGE_ID, monitoring.events, monitoring.DISABLE
        monitoring.use_tool_id(tool, "choose_tests")

        def starts(code: Any, _: int) -> Any:
            if os.path.abspath(code.co_filename).startswith(source):  # noqa: PTH100 as quick as can be
                monitoring.set_local_events(tool, code, events.LINE)
            return off

        def reaches(code: Any, line: int) -> Any:
            self._reached.add((code.co_filename, line))
            return off

        monitoring.register_callback(tool, events.PY_START, starts)
        monitoring.register_callback(tool, events.LINE, reaches)
        monitoring.set_events(tool, events.PY_START)

    def end(self) -> None:
        """Have nothing told any more: this module may go before others run their last lines."""
        self._file.close()
        if self._monitoring is not None:
            monitoring, tool = self._monitoring, self._monitoring.COVERAGE_ID
            monitoring.set_events(tool, monitoring.events.NO_EVENTS)
            for event in (monitoring.events.PY_START, monitoring.events.LINE):
                monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)

    def measure(self, item: Any) -> Any:
        """Around a test: writes a line about it."""
        self._reached.clear()
        if self._monitoring is not None:
            self._monitoring.restart_events()
        wall, of_core = time.perf_counter(), _seconds_of_core()
        try:
            return (yield)
        finally:
            in_place = any(map(item.get_closest_marker, ("spark", "slow", "crash", "server")))
            took = time.perf_counter() - wall if in_place else _seconds_of_core() - of_core
            row = {"test": item.nodeid.replace("\n", " "), "seconds": round(took, 4), "quick": not in_place}
            lines = [f"{os.path.relpath(path, ROOT)}:{line}" for path, line in self._reached]
            self._file.write(json.dumps({**row, "lines": lines}) + "\n")


def _seconds_of_core() -> float:
    """What this process and those that it has waited for have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def pytest_configure(config: Any) -> None:
    """Begin: pytest calls this, of a plugin."""
    import pytest

    meter = Meter()

    class Plugin:
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item: Any) -> Any:
            return (yield from meter.measure(item))

        def pytest_unconfigure(self) -> None:
            meter.end()

    config.pluginmanager.register(Plugin())


def measure(arguments: list[str]) -> int:
    """Run pytest with the meter."""
    what = arguments or ["-m", QUICK, "tests"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "choose_tests", "-p", "no:cacheprovider", *what]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


# ------------------------------------------------------------------------------------------------- choosing


class Measured:
    """All that was measured: `seconds` of tests, `lines` that quick ones reach, by number."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        for path in sorted(MEASURED.glob("*.jsonl")):
            for text in path.open(encoding="utf-8"):
                row = json.loads(text)
                self.seconds[row["test"]] = row["seconds"]
                if row["quick"] and row["lines"]:
                    found = [numbers.setdefault(line, len(numbers)) for line in row["lines"]]
                    self.lines[row["test"]] = np.array(found)
        self.count = len(numbers)


def core_of(measured: Measured, pinned: tuple[str, ...]) -> set[str]:
    """The tests of the core: the cheap, the pinned, and those that reach most lines a second."""
    reached = np.zeros(measured.count, bool)
    core, rest = set(), []
    for number, (test, lines) in enumerate(measured.lines.items()):
        if measured.seconds[test] < CHEAP_SECONDS or test.startswith(pinned):
            core.add(test)
            reached[lines] = True
        else:
            rest.append((-len(lines) / measured.seconds[test], number, test))
    heapq.heapify(rest)
    while rest and reached.sum() < PART * measured.count:
        _, number, test = heapq.heappop(rest)
        new = np.count_nonzero(~reached[measured.lines[test]])
        worth = -new / measured.seconds[test]
        if new and rest and worth > rest[0][0]:  # others are worth more by now
            heapq.heappush(rest, (worth, number, test))
        elif new:
            core.add(test)
            reached[measured.lines[test]] = True
    return core


def choose() -> int:
    """Write the two lists, and say what the core takes."""
    measured = Measured()
    if not measured.seconds:
        print("nothing is measured: run `choose_tests.py measure` first", file=sys.stderr)
        return 1
    families: dict[str, dict[str, str]] = defaultdict(dict)
    for test in measured.seconds:
        function, _, parameters = test.partition("[")
        if function.startswith("tests/"):
            families[function][parameters.removesuffix("]")] = test
    deep = {test: kept for test, *kept in check_tests.entries("deep")}
    if measured.lines:
        core = core_of(measured, tuple(test for test, *_ in check_tests.entries("pinned")))
        _choose_deep(deep, families, measured, core)
    seconds = dict(check_tests.entries("seconds"))
    for function, members in families.items():
        kept = deep.get(function) or members
        taken = sum(measured.seconds[members[one]] for one in kept if one in members)
        seconds.pop(function, None)
        if taken >= NOTED_SECONDS:
            seconds[function] = f"{taken:.2f}".rstrip("0").rstrip(".")
    check_tests.write("deep", deep)
    check_tests.write("seconds", {test: [given] for test, given in seconds.items()})
    left = [test for test in measured.lines if _stays(deep, test)]
    print(f"{len(left)} of {len(measured.lines)} quick tests stay, with", end=" ")
    print(f"{sum(measured.seconds[test] for test in left):.0f} of {sum(measured.seconds.values()):.0f} s")
    return 0


def _choose_deep(deep: dict[str, list[str]], families: Any, measured: Measured, core: set[str]) -> None:
    """Change the entries of the functions whose lines were counted."""
    for function, members in families.items():
        if not all(test in measured.lines for test in members.values()):
            continue
        deep.pop(function, None)
        kept = sorted(one for one, test in members.items() if test in core)
        saved = sum(measured.seconds[test] for test in members.values() if test not in core)
        if saved >= SAVES_SECONDS:
            deep[function] = kept


def _stays(deep: dict[str, list[str]], test: str) -> bool:
    function, _, parameters = test.partition("[")
    return function not in deep or parameters.removesuffix("]") in deep[function]


if __name__ == "__main__":
    _, *arguments = sys.argv
    if arguments[:1] not in (["measure"], ["choose"]):
        sys.exit(__doc__)
    sys.exit(measure(arguments[1:]) if arguments[0] == "measure" else choose())
