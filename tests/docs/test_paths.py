"""The files that docs name exist, and the walks of docs/architecture.md stay short and go one way."""

import re

import pytest

from support.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
HOMES = (ROOT / "src" / "ridgeline", ROOT / "src" / "ridgeline" / "engine", ROOT / "src", ROOT, ROOT / "docs")


pytestmark = pytest.mark.lint


def test_named_files_exist():
    missing = [
        f"{page.name}: {name}"
        for page in PAGES
        for name in re.findall(r"`((?:[\w.]+/)+(?:[\w*]+\.(?:py|md|toml|lock))?)`", page.read_text())
        if name not in OTHERS and not any(list(home.glob(name.rstrip("/"))) for home in HOMES)
    ]
    assert not missing


OTHERS = {"journal/", "committed/", "plans/", "spark/offsets/"}
"""Folders of a checkpoint."""


@pytest.mark.parametrize(("title", "most"), [("The walk through a window", 20), ("The walk of a metric", 14)])
def test_walks_are_short_and_never_go_back(title, most):
    section = ARCHITECTURE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d+\. `([\w/]+\.py)`: ", section, re.MULTILINE)
    assert 5 < len(steps) <= most
    assert len(set(steps)) == len(steps)
    assert section.count("\n1. ") == 1
    assert len(steps) == len(re.findall(r"^\d+\. ", section, re.MULTILINE))


def test_prose_is_within_the_line():
    for page in (*PAGES, ROOT / "CHANGELOG.md", ROOT / "Makefile"):
        if page.name not in {"cli.md", "metrics.md", "operators.md"}:  # made from texts of the code
            code = False
            for number, line in enumerate(page.read_text().splitlines(), 1):
                code ^= line.startswith("```")
                assert len(line) <= 110 or code or line.startswith("|"), f"{page.name}:{number}"
