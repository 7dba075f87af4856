"""The fold behind flame graphs: the stacks of the last minute, by logical operator, as trees of functions."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from ridgeline.measure.answers.lines import OperatorStacksAnswer, StackFunctionAnswer, StacksAnswer
from ridgeline.measure.events import StackTimes
from ridgeline.measure.topology import Topology

KEPT_SECONDS = 60.0
DEEPEST = 64
MOST_FUNCTIONS = 400
"""Of an operator's answer; fewer where there are many operators."""
FEWEST_FUNCTIONS = 16
MOST_IN_ALL = 5_000
"""Of an answer about all operators."""
_SLICE_SECONDS = 1.0
_MOST_KEPT = 2_000
"""Nodes of a slice; further time counts for the caller that there is."""
_MOST_READ = 1_000
"""Nodes of a message; processes send fewer."""
_MOST_KNOWN = 20_000
_KINDS = frozenset(("user", "operators", "package", "python", "engine"))


class _Function(NamedTuple):
    """A function, as an answer says it."""

    file: str
    line: int
    name: str
    kind: str


class _Node:
    """A function at its place in the tree, or an operator; `seconds`: without what it calls."""

    __slots__ = ("calls", "seconds", "whole")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.whole = 0.0
        self.calls: dict[_Function, _Node] = {}


class _Slice:
    """The trees of a second, by operator."""

    def __init__(self, at: float) -> None:
        self.at = at
        self.size = 0
        self.trees: dict[str, _Node] = {}


class StackFold:
    """Takes in what heartbeats say of stacks, in slices of a second. One thread at a time.

    Whatever messages have in them, memory is bounded, and callers come before what they call.
    """

    def __init__(self) -> None:
        self._slices: deque[_Slice] = deque()
        self._known: dict[_Function, _Function] = {}
        """Functions, so that each is in memory once."""

    def add(self, at: float, stacks: StackTimes | None, topology: Topology) -> None:
        """Take in the stacks of a message received `at`. Operators that the plan has not are left out."""
        if stacks is None:
            return
        now = self._slice(at)
        functions = [self._function(stacks.files, one) for one in stacks.functions[:_MOST_READ]]
        places: list[tuple[_Node, int] | None] = []
        for caller, function, seconds in stacks.nodes[:_MOST_READ]:
            place = None
            if caller < 0:
                operator = topology.by_id.get(function)
                if operator is not None:
                    place = now.trees.setdefault(operator.name, _Node()), 0
            elif caller < len(places) and (above := places[caller]) is not None:
                place = _below(now, above, functions, function)
            places.append(place)
            if place is not None and seconds > 0:
                place[0].seconds += seconds

    def _function(self, files: tuple[str, ...], said: tuple[int, int, str, str]) -> _Function:
        file, line, name, kind = said
        path = files[file] if 0 <= file < len(files) else ""
        found = _Function(path, line, name, kind if kind in _KINDS else "python")
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        return self._known.setdefault(found, found)

    def _slice(self, at: float) -> _Slice:
        """The newest slice, a new one if that is over; those before the last minute are forgotten."""
        if not self._slices or at - self._slices[-1].at >= _SLICE_SECONDS:
            self._slices.append(_Slice(at))
            while self._slices[0].at < at - KEPT_SECONDS:
                self._slices.popleft()
        return self._slices[-1]

    def answer(self, now: float, of_path: Mapping[str, float], operator: str | None = None) -> StacksAnswer:
        """The stacks of the last minute. `of_path`: the part of the critical path that is an operator's."""
        sums: dict[str, _Node] = {}
        for one in self._slices:
            if one.at >= now - KEPT_SECONDS:
                for name, tree in one.trees.items():
                    if operator in {None, name}:
                        _add(sums.setdefault(name, _Node()), tree)
        shown = sorted((one for one in sums.items() if _sum(one[1]) > 0), key=lambda one: -one[1].whole)
        most = min(MOST_FUNCTIONS, max(FEWEST_FUNCTIONS, MOST_IN_ALL // max(1, len(shown))))
        room = MOST_IN_ALL
        operators: list[OperatorStacksAnswer] = []
        for name, tree in shown:
            functions = _functions(tree, min(most, room))
            room -= len(functions)
            part = of_path.get(name, 0.0)
            operators.append(
                {"operator": name, "seconds": tree.whole, "ofPath": part, "functions": functions}
            )
        return {"seconds": KEPT_SECONDS, "operators": operators}


def _below(
    now: _Slice, above: tuple[_Node, int], functions: list[_Function], number: int
) -> tuple[_Node, int] | None:
    """The node of a function that is called from the one above, which stands for it where there is no room.

    None for a function that the message has not.
    """
    node, depth = above
    if not 0 <= number < len(functions):
        return None
    function = functions[number]
    called = node.calls.get(function)
    if called is None:
        if depth >= DEEPEST or now.size >= _MOST_KEPT:
            return above
        now.size += 1
        called = node.calls[function] = _Node()
    return called, depth + 1


def _add(total: _Node, tree: _Node) -> None:
    """Add a tree to another one."""
    waiting = [(total, tree)]
    while waiting:
        into, one = waiting.pop()
        into.seconds += one.seconds
        for function, called in one.calls.items():
            waiting.append((into.calls.setdefault(function, _Node()), called))


def _sum(tree: _Node) -> float:
    """Set `whole` of it and of all below it: their seconds with what they call; at most `DEEPEST` levels."""
    tree.whole = tree.seconds + sum(map(_sum, tree.calls.values()))
    return tree.whole


def _functions(tree: _Node, most: int) -> list[StackFunctionAnswer]:
    """The tree as a list, of the functions with the most time; that of others is their caller's own."""
    kept = _largest(tree, most)
    found: list[StackFunctionAnswer] = []
    waiting = _calls(tree, kept, -1)
    while waiting:
        caller, function, node = waiting.pop()
        calls = _calls(node, kept, len(found))
        own = node.whole - sum(called.whole for _, _, called in calls)
        found.append(
            {
                "caller": caller,
                "function": function.name,
                "file": function.file,
                "line": function.line,
                "kind": function.kind,
                "seconds": node.whole,
                "ownSeconds": max(0.0, own),
                "share": node.whole / tree.whole,
            }
        )
        waiting.extend(calls)
    return found


def _calls(node: _Node, kept: set[int], place: int) -> list[tuple[int, _Function, _Node]]:
    """The calls of a node, as far as they are kept, the longest last."""
    calls = [(place, function, called) for function, called in node.calls.items() if id(called) in kept]
    return sorted(calls, key=lambda call: call[2].whole)


def _largest(tree: _Node, most: int) -> set[int]:
    """The identities of the nodes with the most time; a caller has no less than what it calls."""
    kept: set[int] = set()
    waiting = [(-tree.whole, 0, tree)]
    number = 0
    while waiting and len(kept) <= most:
        _, _, node = heapq.heappop(waiting)
        kept.add(id(node))
        for called in node.calls.values():
            number += 1  # nodes have no order of their own
            heapq.heappush(waiting, (-called.whole, number, called))
    return kept
