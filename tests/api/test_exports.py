"""What the signatures of public classes name is public too."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import ridgeline
from ridgeline import policies, sla

ENGINE_ONLY = {
    "Control",
    "Held",
    "Kind",
    "KeyedBase",
    "Processing",
    "Takes",
    "TimerCell",
    "Times",
    "ValueCell",
}
"""Named by methods that the engine calls, or type checkers ask, never an author."""


def test_what_signatures_name_is_exported():
    files = (Path(ridgeline.__file__).parent / "api").rglob("*.py")
    trees = [ast.parse(file.read_text()) for file in files]
    defined = {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    named = set()
    for name in ridgeline.__all__:
        for member, function in (
            vars(getattr(ridgeline, name)).items() if inspect.isclass(getattr(ridgeline, name)) else ()
        ):
            if inspect.isfunction(function) and (not member.startswith("_") or member == "__init__"):
                named |= set(re.findall(r"\w+", " ".join(map(str, function.__annotations__.values()))))
    exported = {*ridgeline.__all__, *policies.__all__, *sla.__all__}
    assert (named & defined) - exported == ENGINE_ONLY
