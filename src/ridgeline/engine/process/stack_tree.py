"""Whole stacks of an operator's thread, folded: a tree of functions, each with the time seen in it.

It is kept from one message to the driver to the next, and is bounded in stacks, depth, functions and texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType

from ridgeline.measure.events import StackTimes

DEEPEST_LOOK = 200
"""Frames that a look at a stack follows, from the innermost on: it costs up to so many steps."""
DEEPEST = 64
"""Levels of a folded stack; time further in counts for the last level."""
MOST_STACKS = 500
MOST_NODES = 150
"""Of one message."""
LONGEST_NAME = 160
LONGEST_FILE = 240
_CUT = (-1, 0, f"(callers {DEEPEST_LOOK} levels out)", "python")

_Key = tuple[str, int, str, str]


class _Node:
    """A function that was called from the node before; `seconds`: in itself, without what it calls."""

    __slots__ = ("children", "seconds", "whole")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.whole = 0.0
        self.children: dict[_Key | None, _Node] = {}


class StackTree:
    """Takes in stacks, innermost frame first, and hands out what it has. One thread at a time.

    `kind_of`: whose a file is, as `StackTimes` has it. `own`: the engine's, whose frames up to the first of
    others are no part of an operator's stack.
    """

    def __init__(self, kind_of: Callable[[str], str], own: str) -> None:
        self._kind_of = kind_of
        self._own = own
        self._found: dict[tuple[int, tuple[int, ...]], tuple[Sequence[CodeType], list[float]]] = {}

    def add(self, operator: int, codes: Sequence[CodeType], seconds: float) -> None:
        """Count some time for a stack of an operator; without room for the operator itself.

        Codes are kept by identity, as to hash one costs more than the whole look.
        """
        key = (operator, tuple(map(id, codes)))
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= MOST_STACKS:
                codes, key = (), (operator, ())
            known = self._found.setdefault(key, (codes, [0.0]))
        known[1][0] += seconds

    def take(self) -> StackTimes | None:
        """The time by stack since the last call; None if there is none. Small parts count for the caller."""
        found, self._found = self._found, {}
        roots: dict[int, _Node] = {}
        for (operator, _), (codes, seconds) in found.items():
            node = roots.setdefault(operator, _Node())
            node.whole += seconds[0]
            for key in self._keys(codes):
                node = node.children.setdefault(key, _Node())
                node.whole += seconds[0]
            node.seconds += seconds[0]
        return _message(roots) if roots else None

    def _keys(self, codes: Sequence[CodeType]) -> list[_Key | None]:
        """The functions of a stack, outermost first, without the engine's that call the operator.

        A function that calls itself is there once. None: callers that were not looked at.
        """
        kinds = [self._kind_of(code.co_filename) for code in codes]
        keys: list[_Key | None] = []
        at = len(codes) - 1
        if len(codes) >= DEEPEST_LOOK:
            keys.append(None)
        else:
            outermost = max((index for index, kind in enumerate(kinds) if kind == self._own), default=at)
            at = outermost
            while at >= 0 and kinds[at] in {self._own, "python"}:
                at -= 1
        for index in range(at, -1, -1):
            code = codes[index]
            key = (
                code.co_filename[-LONGEST_FILE:],
                code.co_firstlineno,
                code.co_qualname[:LONGEST_NAME],
                kinds[index],
            )
            if not keys or keys[-1] != key:
                keys.append(key)
        return keys[:DEEPEST]


def _message(roots: dict[int, _Node]) -> StackTimes:
    """The nodes with the most time, callers before what they call; the time of others is their caller's."""
    largest = sorted(_wholes(roots), reverse=True)[:MOST_NODES]
    least = largest[-1]
    room = MOST_NODES - sum(1 for one in largest if one > least)
    files: dict[str, int] = {}
    functions: dict[tuple[int, int, str, str], int] = {}
    nodes: list[tuple[int, int, float]] = []
    waiting = [(node, -1, operator) for operator, node in sorted(roots.items(), reverse=True)]
    while waiting:
        node, parent, function = waiting.pop()
        place, seconds = len(nodes), node.seconds
        nodes.append((parent, function, 0.0))
        for key, child in node.children.items():
            is_kept = child.whole > least
            if not is_kept and child.whole == least and room > 0:
                room, is_kept = room - 1, True
            if is_kept:
                known = _CUT if key is None else (files.setdefault(key[0], len(files)), *key[1:])
                waiting.append((child, place, functions.setdefault(known, len(functions))))
            else:
                seconds += child.whole
        nodes[place] = parent, function, round(seconds, 4)
    return StackTimes(tuple(files), tuple(functions), tuple(nodes))


def _wholes(roots: dict[int, _Node]) -> list[float]:
    """The time of each node below the roots, with what it calls."""
    found: list[float] = [0.0]
    waiting = list(roots.values())
    while waiting:
        children = waiting.pop().children.values()
        found.extend(child.whole for child in children)
        waiting.extend(children)
    return found
