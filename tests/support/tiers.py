"""Where a test runs: in `make test` (the core), in the parts of CI, or only before a release.

A test belongs to the core unless a mark says otherwise. Two marks stand in no file of tests, as they follow
from measurements and change often: `deep` (`tests/tiers/deep.txt`) and `kill` (`tests/tiers/kills.txt`).
`server` follows from what a test uses. The Makefile has an expression of marks for each part.

Lines of the lists are `path::function`, with a tab and ids of parameters if only some of them are meant:
those that stay in the core, or those that kill. A line of `kills.txt` and `pinned.txt` may be a path alone.
As a command, with the name of a part: the files that have tests of it, so that no others are collected.
"""

from __future__ import annotations

import os
import re
import sys
import time
import zlib
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_LISTS = ROOT / "tests" / "tiers"

END = float(os.environ.get("CI_END", "inf"))
"""In seconds since 1970: what would begin later is not reached. `.ci/run` sets it for its last parts."""

TURN = int(os.environ.get("CI_TURN", "0"))
"""The number of the commit: which eighth of the files comes first, so that each does in turn."""

NOT_REACHED = "not reached in the time that CI has: `make test-deep` runs it"


@cache
def listed(name: str) -> dict[str, tuple[str, ...]]:
    """The entries of a list: a path or a function, and ids of its parameters."""
    entries = {}
    for line in (_LISTS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            test, *ids = line.split("\t")
            entries[test] = tuple(ids)
    return entries


@cache
def seconds() -> dict[str, float]:
    """How long functions take, those of a third of a second and more; `scripts/choose_tests.py` measures."""
    return {test: float(given) for test, (given,) in listed("seconds").items()}


def set_marks(items: list[pytest.Item]) -> None:
    """Set the marks that follow from lists, and from what tests use."""
    deep, kills = listed("deep"), listed("kills")
    families = defaultdict(list)
    for item in items:
        function, _, rest = item.nodeid.partition("[")
        families[function].append((item, rest.removesuffix("]").replace("\n", " ")))
    for function, members in families.items():
        path = function.partition("::")[0]
        if not path.startswith("tests/"):
            _mark(members, "deep")
        elif function in deep:
            kept = [member for member in members if member[1] in deep[function]]
            if kept or not deep[function]:  # where all ids have changed, all stay
                _mark([member for member in members if member not in kept], "deep")
        if function in kills or path in kills:
            ids = kills.get(function)
            _mark([member for member in members if not ids or member[1] in ids], "kill")
        if _uses_a_server(members[0][0]):
            _mark(members, "server")


def _mark(members, name):
    for item, _ in members:
        item.add_marker(name)


def _uses_a_server(item):
    """Whether a test, or a fixture of it, starts a server by `ridgeline.testing.services.fixtures`."""
    fixtures = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}).values()
    functions = [getattr(item, "function", None), *(found[-1].func for found in fixtures)]
    return any("ready" in getattr(getattr(one, "__code__", None), "co_names", ()) for one in functions)


def check_marks(items: list[pytest.Item]) -> None:
    """Fail if `files_of` a part would not find a test that has the mark of the part: it would never run."""
    files = {part: set(files_of(part)) for part in ("spark", "alone", "lint", "server", "kill")}
    missed = {
        f"`{item.nodeid}` has the mark `{part}`, but `tests/support/tiers.py` does not look for it there"
        for item in items
        for part in files
        if item.get_closest_marker(part) and item.nodeid.partition("::")[0] not in files[part]
    }
    if missed:
        raise pytest.UsageError("\n".join(sorted(missed)))


def is_over() -> bool:
    """Whether no test of CI's last part begins any more."""
    return time.time() > END


def in_order(items: list[pytest.Item]) -> None:
    """Sort collected tests for processes that share files: long files first, so that all end together.

    In CI the files of this commit's turn come first. Of files that take equally long those with tests on
    Spark come first: they mostly wait. Tests of a file stay together, in their order.
    """
    taken = defaultdict(float)
    for test, given in seconds().items():
        taken[test.partition("::")[0]] += given
    on_spark = {item.path for item in items if item.get_closest_marker("spark")}

    def key(item):
        path = item.path.relative_to(ROOT).as_posix()
        turn = (zlib.crc32(path.encode()) - TURN) % 8 if "CI_TURN" in os.environ else 0
        return (turn, -taken[path], item.path not in on_spark)

    items.sort(key=key)


_FUNCTION = re.compile(r"^ *(?:async )?def (test_\w+)|^(?:class )?(Test\w+)\b", re.MULTILINE)
_ELSEWHERE = re.compile(r"^pytestmark = .*mark\.(?:spark|slow|crash|alone|lint)\b", re.MULTILINE)
_SERVER = re.compile(r"\b(?:ready|broker|kafka|registry|postgres|mariadb|seaweedfs)\b")


def files_of(part: str) -> list[str]:
    """Files that have tests of a part; some may have none."""
    deep = defaultdict(set)
    for test, kept in listed("deep").items():
        if not kept:
            path, _, function = test.partition("::")
            deep[path].add(function)
    serving = {
        path.parent.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("conftest.py")
        if re.search(r"services(?:\.| import )fixtures", path.read_text(encoding="utf-8"))
    }
    in_kills = {test.partition("::")[0] for test in listed("kills")}
    has = {
        "core": lambda path, text: (
            not _ELSEWHERE.search(text)
            and any((one or other) not in deep[path] for one, other in _FUNCTION.findall(text))
        ),
        "spark": lambda _, text: "mark.spark" in text,
        "alone": lambda _, text: "mark.alone" in text,
        "lint": lambda _, text: "mark.lint" in text,
        "kill": lambda path, _: path in in_kills,
        "server": lambda path, text: bool(_SERVER.search(text)) or str(Path(path).parent) in serving,
    }[part]
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    names = [path.relative_to(ROOT).as_posix() for path in paths]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return [name for name, text in zip(names, texts, strict=True) if has(name, text)]


if __name__ == "__main__":
    print(*files_of(sys.argv[1]))
