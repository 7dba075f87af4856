"""Keep the house one that a reader finds the way in: folders, files, classes and knots have limits.

A room is a folder of `src`. The order of rooms, who may import whom, is import-linter's (`pyproject.toml`).
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grimp
import networkx as nx

ROOT = Path(__file__).resolve().parent.parent
HOUSE = ROOT / "src" / "ridgeline"
MOST_LINES = 800
"""Of a file, in `src` and in `tests`."""
MOST_FILES = 22
"""In a folder. `operators` has one file for each operator."""
MOST_ATTRIBUTES = 20
"""That a class sets on its instances."""
SHORT = 60
"""Lines of a file below which one asks why it stands alone, where only one file of its folder imports it."""
MOST_SHORT = 20
MOST_KNOTTED = 12
"""Modules that import each other in a circle, names for annotations included."""

RESULTS = {
    ("ridgeline.api.application", "ridgeline.service.handle"),
    ("ridgeline.api.application", "ridgeline.streams.stream"),
    ("ridgeline.api.support.attribute_types", "ridgeline.operators"),
    ("ridgeline.api.support.attribute_types", "ridgeline.streams.stream"),
    ("ridgeline.streams.expressing", "ridgeline.streams.connecting"),
}
"""Count for no circle: what methods such as `Application.read` take and return, for type checkers only."""


def long_files() -> Iterator[str]:
    """Files that have two subjects, as a reader cannot take them in at one sitting."""
    for folder in ("src", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            lines = len(path.read_text(encoding="utf-8").splitlines())
            if lines > MOST_LINES:
                yield f"{path.relative_to(ROOT)}: {lines} lines, at most {MOST_LINES}; split it by subject"


def full_folders() -> Iterator[str]:
    """Folders with more files than a reader keeps in mind."""
    counts = Counter(path.parent for path in HOUSE.rglob("*.py"))
    for folder, count in sorted(counts.items()):
        if count > MOST_FILES and folder.name != "operators":
            yield f"{folder.relative_to(ROOT)}: {count} files, at most {MOST_FILES}; make rooms by subject"


def attributes_of(node: ast.ClassDef) -> set[str]:
    """What the methods of a class assign to `self`."""
    found = set()
    for part in ast.walk(node):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                found.add(name)
    return found


def big_classes() -> Iterator[str]:
    """Classes that are several objects in one."""
    for path in sorted(HOUSE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                count = len(attributes_of(node))
                if count > MOST_ATTRIBUTES:
                    what = f"`{node.name}` has {count} attributes, at most {MOST_ATTRIBUTES}"
                    yield f"{path.relative_to(ROOT)}: {what}"


def short_files(graph: grimp.ImportGraph) -> list[str]:
    """Files that may be a part of the one that imports them."""
    found = []
    for path in sorted(HOUSE.rglob("*.py")):
        if path.name.startswith("__") or len(path.read_text(encoding="utf-8").splitlines()) >= SHORT:
            continue
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        importers = graph.find_modules_that_directly_import(module)
        if len(importers) == 1 and next(iter(importers)).rpartition(".")[0] == module.rpartition(".")[0]:
            found.append(str(path.relative_to(ROOT)))
    return found


def knots(graph: grimp.ImportGraph) -> list[list[str]]:
    """Modules that import each other in a circle, the largest first."""
    edges = nx.DiGraph(
        (module, other)
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
        if (module, other) not in RESULTS
    )
    found = [sorted(knot) for knot in nx.strongly_connected_components(edges) if len(knot) > 1]
    return sorted(found, key=len, reverse=True)


def faults() -> Iterator[str]:
    """What breaks a limit, a line each."""
    yield from long_files()
    yield from full_folders()
    yield from big_classes()
    graph = grimp.build_graph("ridgeline", cache_dir=None)
    if len(short := short_files(graph)) > MOST_SHORT:
        limit = f"{SHORT} lines have one importer, in their folder; at most {MOST_SHORT}"
        yield f"{len(short)} files under {limit}:"
        yield from (f"  {path}" for path in short)
    for knot in knots(graph):
        if len(knot) > MOST_KNOTTED:
            yield f"{len(knot)} modules import each other in a circle; at most {MOST_KNOTTED}:"
            yield "  " + " ".join(name.removeprefix("ridgeline.") for name in knot)


if __name__ == "__main__":
    sys.exit("\n".join(faults()) or 0)
