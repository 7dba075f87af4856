"""Write docs/guides.md from docs/guides.toml and the marks of tests: `python scripts/write_guides_page.py`.

A test is marked with the guide and the heading that it shows: `@pytest.mark.guide("002", "Parallel")`.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guides.md"
HEADINGS = ROOT / "docs" / "guides.toml"
GUIDES = {
    "002": ("application", "Application developer guide"),
    "004": ("operator", "Operator development guide"),
}
HEAD = """# The guides of Apex, heading by heading

Made from `docs/guides.toml` and the marks of tests by `python scripts/write_guides_page.py`.

Ridgeline does what two guides of Apache Apex describe, in Python, on Spark. Each heading of theirs has a row:
what works here, and the tests that show it. **Not yet** says what is still to come, **Instead** what stands
in the place of something that belongs to Hadoop or Java.
"""
KINDS = {"here": "", "later": "**Not yet.** ", "instead": "**Instead:** "}
Marks = dict[tuple[str, str], list[str]]
"""Links to tests, by guide and heading."""


def render() -> str:
    """The page's text."""
    with HEADINGS.open("rb") as file:
        headings = tomllib.load(file)
    marks = marks_of_tests()
    text = HEAD
    for number, (key, title) in GUIDES.items():
        text += f"\n## {title}\n\n| heading | here | tests |\n|---|---|---|\n"
        for row in headings[key]:
            tests = "<br>".join(marks.get((number, row["heading"]), ()))
            text += f"| {'&nbsp;' * 3 * (row['level'] - 1)}{row['heading']} | {_says(row)} | {tests} |\n"
    return text


def _says(row: dict[str, str]) -> str:
    [kind] = row.keys() & KINDS.keys()
    return (KINDS[kind] + row[kind]).strip()


def marks_of_tests() -> Marks:
    """All marked tests."""
    found: Marks = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if "mark.guide(" in text:
            for name, guide, heading in marked(text):
                link = f"[{name.removeprefix('test_')}](../{path.relative_to(ROOT).as_posix()})"
                found.setdefault((guide, heading), []).append(link)
    return found


def marked(text: str) -> Iterator[tuple[str, str, str]]:
    """Test, guide and heading of each mark in a module of tests."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            for one in node.decorator_list:
                if isinstance(one, ast.Call) and ast.unparse(one.func) == "pytest.mark.guide":
                    guide, heading = (ast.literal_eval(argument) for argument in one.args)
                    yield node.name, guide, heading


if __name__ == "__main__":
    PAGE.write_text(render())
