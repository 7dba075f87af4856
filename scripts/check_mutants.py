"""Plant bugs one by one in a copy of the code, and look whether tests notice each.

`python scripts/check_mutants.py` plants all of `tests/tiers/mutants.toml`, which takes half an hour and is
part of `make test-deep`; `... check_mutants.py NAME ...` plants some. What is not noticed is printed, and the
exit code is 1. A bug that cannot be planted, since the code has changed, is an error: fix its text. With
`--check` nothing is planted: `make lint` looks whether all can be.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "tiers" / "mutants.toml"
_LONGEST_SECONDS = 900


class Mutant(NamedTuple):
    """A bug: this text, which is in the code once, becomes another one. `tests`: arguments of pytest."""

    text: str
    becomes: str
    tests: str


def fault_of(mutant: Mutant, code: dict[Path, str]) -> str:
    """Why a bug cannot be planted; empty if it can be."""
    found = sum(text.count(mutant.text) for text in code.values())
    if found != 1:
        return f"the code has its text {found} times, not once: {mutant.text!r}"
    missing = [name for name in mutant.tests.split() if not (ROOT / name).exists()]
    return f"there is no `{missing[0]}`" if missing else ""


def source_of(root: Path) -> dict[Path, str]:
    """The texts of all modules below a folder."""
    return {path: path.read_text(encoding="utf-8") for path in root.rglob("*.py")}


def plant(mutant: Mutant, folder: Path) -> Path:
    """A copy of the code with a bug in it."""
    copy = folder / "src"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path, text in source_of(copy).items():
        if mutant.text in text:
            path.write_text(text.replace(mutant.text, mutant.becomes), encoding="utf-8")
    return copy


def noticed(mutant: Mutant) -> bool:
    """Whether tests notice the bug, be it by hanging. Raises LookupError if they cannot run."""
    with tempfile.TemporaryDirectory() as folder:
        copy = plant(mutant, Path(folder))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        try:
            ran = subprocess.run(
                [*command, "-m", "not (spark or deep or slow or crash or server)", *mutant.tests.split()],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(copy), "TEST_PATIENCE_SECONDS": "30"},
                capture_output=True,
                text=True,
                timeout=_LONGEST_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
    if ran.returncode not in {0, 1}:
        raise LookupError(
            f"tests could not run (exit code {ran.returncode}):\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}"
        )
    return ran.returncode == 1


def main() -> int:
    """Plant what the arguments name; 1 if something is not noticed, 2 if it cannot be planted."""
    mutants = {name: Mutant(**row) for name, row in tomllib.loads(TABLE.read_text(encoding="utf-8")).items()}
    parser = argparse.ArgumentParser(description="Plant bugs, and look whether tests notice them.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; none: all")
    parser.add_argument("--check", action="store_true", help="look only whether they can be planted")
    arguments = parser.parse_args()
    names = arguments.names or list(mutants)
    if unknown := [name for name in names if name not in mutants]:
        parser.error(f"there is no `{unknown[0]}`; there are {', '.join(mutants)}")
    code = source_of(ROOT / "src")
    broken = {name: fault for name in names if (fault := fault_of(mutants[name], code))}
    for name, fault in broken.items():
        print(f"`{TABLE.relative_to(ROOT)}`: {name}: {fault}", flush=True)
    if arguments.check:
        return bool(broken)
    missed = []
    for name in names:
        if name in broken:
            continue
        found = noticed(mutants[name])
        print(f"{name}: {'noticed' if found else 'NOT NOTICED'}", flush=True)
        missed += [] if found else [name]
    planted = len(names) - len(broken)
    print(f"{planted} bugs planted, {planted - len(missed)} noticed", flush=True)
    return 2 if broken else bool(missed)


if __name__ == "__main__":
    sys.exit(main())
