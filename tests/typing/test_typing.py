"""mypy and pyright find each planted error on its line, and nothing in applications that are right.

A line of `applications/` that must be an error ends in `# error: why`, or `# mypy error: why` if only mypy
sees it. pyright is basedpyright here: the same checker, as a wheel with its own node.js, so nothing is
downloaded when it runs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANTED = Path(__file__).parent / "applications"
EXAMPLES = ROOT / "examples"
FILES = sorted([*PLANTED.glob("*.py"), *EXAMPLES.glob("*.py")])
NOT_OURS = {
    "payments.py": [
        "RecordBatch.from_arrays([accounts, totals]"
    ],  # pyarrow-stubs refuse numpy arrays, pyarrow takes them
    "word_count.py": ["    count: int"],  # a NamedTuple's field hides `tuple.count`
}
"""Lines of the API's contract, which must stay, that strict mode refuses for reasons outside of Ridgeline."""

Places = set[tuple[str, int]]
pytestmark = pytest.mark.slow


def expected(path: Path, checker: str) -> Places:
    lines = path.read_text().splitlines()
    known = NOT_OURS.get(path.name, []) if path.parent == EXAMPLES else []
    return {
        (path.name, number)
        for number, line in enumerate(lines, 1)
        if f"# {checker} error: " in line or "# error: " in line or any(text in line for text in known)
    }


def mypy(folder: Path) -> tuple[Places, str]:
    options = [
        "--strict",
        "--config-file=",
        "--no-error-summary",
        f"--cache-dir={folder}",
        "--python-version=3.11",
    ]
    places = os.pathsep.join(map(str, (ROOT / "src", EXAMPLES, PLANTED)))
    command = [sys.executable, "-m", "mypy", *options, *map(str, FILES)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "MYPYPATH": places}
    )
    found = re.findall(r"^(.+?):(\d+): error:", done.stdout, re.MULTILINE)
    return {(Path(path).name, int(line)) for path, line in found}, done.stdout + done.stderr


def pyright(folder: Path) -> tuple[Places, str]:
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "include": list(map(str, FILES)),
        "extraPaths": list(map(str, (ROOT / "src", EXAMPLES, PLANTED))),
    }
    config = folder / "pyrightconfig.json"
    config.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--project", str(config), "--outputjson"]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    problems = json.loads(done.stdout)["generalDiagnostics"]
    found = {
        (Path(problem["file"]).name, problem["range"]["start"]["line"] + 1)
        for problem in problems
        if problem["severity"] == "error"
    }
    return found, "\n".join(
        f"{problem['file']}: {problem['range']['start']} {problem['message']}" for problem in problems
    )


def test_each_of_the_seven_kinds_of_error_is_planted() -> None:
    kinds = {"emit", "handler", "property_name", "property_type", "attribute_name", "state"}
    names = [*(f"wrong_{kind}.py" for kind in kinds), "swapped_ports.py", "stream_schemas.py"]
    assert all(expected(PLANTED / name, "pyright") for name in names)


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_type_checker_finds_what_is_wrong_and_nothing_else(
    checker: Callable[[Path], tuple[Places, str]], tmp_path: Path
) -> None:
    found, text = checker(tmp_path)
    wanted = {place for path in FILES for place in expected(path, checker.__name__)}
    assert (sorted(found - wanted), sorted(wanted - found)) == ([], []), text
