"""Check the lists that say where tests run: each entry names a test, and no test of the core is long.

`python scripts/check_tests.py` exits with 1 and says what is wrong. With `--mend` entries follow tests that
were moved to another file, and those that name nothing go. See `tests/support/tiers.py` for what the lists
are for.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests" / "tiers"
LONGEST_SECONDS = 1.0
_MARKS = re.compile(r"\bmark\.(?:spark|deep|slow|crash|alone|lint)\b|\bdeeper\b")


def functions() -> dict[str, bool]:
    """The functions of tests, as `path::function`, and whether a mark takes them out of the core."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        marked = any(_MARKS.search(ast.unparse(one)) for one in tree.body if _is_pytestmark(one))
        found[name] = marked
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own = any(_MARKS.search(ast.unparse(one)) for one in node.decorator_list)
                found[f"{name}::{node.name}"] = marked or own
            elif isinstance(node, ast.ClassDef):
                for one in node.body:
                    if isinstance(one, ast.FunctionDef):
                        found[f"{name}::{node.name}::{one.name}"] = marked
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[f"{name}::{node.targets[0].id}::runTest"] = marked  # of a state machine of hypothesis
    return found


def _is_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"


def entries(name: str) -> list[list[str]]:
    """The entries of a list: a test, then what follows it on its line."""
    lines = (LISTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def _is_there(test: str, known: dict[str, bool]) -> bool:
    return test in known or (test.endswith("/") and (ROOT / test).is_dir())


def check(known: dict[str, bool]) -> list[str]:
    """What is wrong with the lists."""
    found = []
    for path in sorted(LISTS.glob("*.txt")):
        tests = [test for test, *_ in entries(path.stem)]
        where = path.relative_to(ROOT).as_posix()
        found += [
            f"{where}: `{test}` is no test: remove its line (`python scripts/check_tests.py --mend` does)"
            for test in tests
            if not _is_there(test, known)
        ]
        if tests != sorted(set(tests)):
            found.append(f"{where}: its lines are not sorted, or a test is there twice: `--mend` sorts them")
    deep = {test for test, *kept in entries("deep") if not kept}
    pinned = tuple(test for test, *_ in entries("pinned"))
    for test, seconds in entries("seconds"):
        core = (
            "::" in test
            and test in known
            and not known[test]
            and test not in deep
            and not test.startswith(pinned)
        )
        if core and float(seconds) > LONGEST_SECONDS:
            found.append(
                f"`{test}` takes {seconds} s in `make test`, more than {LONGEST_SECONDS:g}: shorten it,"
                " or list it in tests/tiers/deep.txt (whole, or with the parameters that stay), or pin it"
            )
    return found


def mend(known: dict[str, bool]) -> None:
    """Sort the lists. Entries whose test is in another file now follow it; those that name nothing go."""
    places: dict[str, list[str]] = {}
    for test in known:
        places.setdefault(test.partition("::")[2], []).append(test)
    for path in sorted(LISTS.glob("*.txt")):
        kept = {}
        for test, *rest in entries(path.stem):
            found = places.get(test.partition("::")[2], []) if "::" in test else []
            if _is_there(test, known):
                kept[test] = rest
            elif len(found) == 1:
                kept.setdefault(found[0], rest)
        write(path.stem, kept)


def write(name: str, kept: dict[str, list[str]]) -> None:
    """Write a list, sorted, below the comments that it has."""
    path = LISTS / f"{name}.txt"
    head = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    lines = ["\t".join([test, *kept[test]]) for test in sorted(kept)]
    path.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


def main() -> int:
    """Mend the lists if asked to, and say what is wrong with them."""
    known = functions()
    if "--mend" in sys.argv:
        mend(known)
    found = check(known)
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
