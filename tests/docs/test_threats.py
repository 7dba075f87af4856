"""The threat model: each line names tests that are there, or says that nothing defends."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "maintainers" / "threats.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| threat ")
]


pytestmark = pytest.mark.lint


def test_there_are_threats_of_all_who_attack():
    headings = PAGE.read_text(encoding="utf-8").count("\n## ")
    assert headings == 8
    assert len(ROWS) > 30


def test_each_line_names_its_tests_or_says_that_there_is_no_defence():
    for threat, defence, tests, remaining in ROWS:
        assert remaining, threat
        assert defence.startswith("not defended") == (tests == "not defended"), threat
        named = TEST.findall(tests)
        assert len(named) == tests.count("`") // 2, f"`{tests}` names something else than tests"
        assert named or tests == "not defended", f"`{tests}` names no test"
        for file, name in named:
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            there = [one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
            assert name in there, f"`{file}` has no test `{name}`"
