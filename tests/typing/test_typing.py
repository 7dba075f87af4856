"""mypy and pyright find each planted error on its line, and nothing in applications that are right.

A line of `applications/` that must be an error ends in `# error: why`, or `# mypy error: why` if only mypy
sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.paths import ROOT
from support.typing.checkers import mypy, pyright

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


@pytest.mark.guide("002", "Compile Time")
def test_errors_are_planted_in_all_but_two() -> None:
    right = {path.stem for path in PLANTED.glob("*.py") if not expected(path, "pyright")}
    assert right == {"operators", "inferred"}


@pytest.mark.guide("002", "Writing the application code")
@pytest.mark.guide("004", "Compile Time Validations")
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_type_checker_finds_what_is_wrong_and_nothing_else(
    checker: Callable[..., tuple[Places, str]], tmp_path: Path
) -> None:
    found, text = checker(FILES, tmp_path, (EXAMPLES, PLANTED))
    wanted = {place for path in FILES for place in expected(path, checker.__name__)}
    assert (sorted(found - wanted), sorted(wanted - found)) == ([], []), text
