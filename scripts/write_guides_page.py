"""Write `docs/maintainers/guides.md` from `guides.toml` beside it: `python scripts/write_guides_page.py`."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "maintainers" / "guides.md"
HEADINGS = ROOT / "docs" / "maintainers" / "guides.toml"
GUIDES = {"application": "Application developer guide", "operator": "Operator development guide"}
HEAD = """# The guides of Apex, heading by heading

Ridgeline does what two guides of Apache Apex describe, in Python, on Spark. Each heading of theirs has a row:
what works here. **Instead** says what stands in the place of something that belongs to Hadoop or Java. Tests
that show it have the mark `guide`, with the heading. The page is made from
`docs/maintainers/guides.toml` by `python scripts/write_guides_page.py`.
"""
KINDS = {"here": "", "instead": "**Instead:** "}


def render() -> str:
    """The page's text."""
    with HEADINGS.open("rb") as file:
        headings = tomllib.load(file)
    text = HEAD
    for key, title in GUIDES.items():
        text += f"\n## {title}\n\n| heading | here |\n|---|---|\n"
        for row in headings[key]:
            text += f"| {'&nbsp;' * 3 * (row['level'] - 1)}{row['heading']} | {_says(row)} |\n"
    return text


def _says(row: dict[str, str]) -> str:
    [kind] = row.keys() & KINDS.keys()
    return (KINDS[kind] + row[kind]).strip()


if __name__ == "__main__":
    PAGE.write_text(render())
