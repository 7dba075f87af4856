"""Open sessions of a key: how those of a batch join those that are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Parts = tuple[Any, ...]
Span = tuple[int, int, Parts]
"""An open session: the times of its oldest and its newest record, and the part of each aggregate."""


def joined(
    known: Sequence[Span], new: Sequence[Span], gap: int, merged: Callable[[Parts, Parts], Parts]
) -> tuple[Span, ...]:
    """The sessions of a key, the oldest first: known ones, and those of a batch that may join them.

    Sessions that are less than `gap` apart are one.

    Both are in the order of their times. `merged` merges parts; those of the first came before.

    >>> one, two = (0, 4, ("a",)), (20, 20, ("b",))
    >>> joined((one, two), [(9, 12, ("c",))], 10, lambda first, second: (first[0] + second[0],))
    ((0, 20, ('abc',)),)
    """
    if not known and len(new) == 1:
        return tuple(new)
    members: list[list[tuple[bool, Span]]] = []
    ends = 0
    every = [(False, span) for span in known] + [(True, span) for span in new]
    for one in sorted(every, key=lambda one: one[1][0]):
        start, end, _ = one[1]
        if members and start - ends < gap:
            members[-1].append(one)
            ends = max(ends, end)
        else:
            members.append([one])
            ends = end
    return tuple(_one(group, merged) for group in members)


def _one(group: Sequence[tuple[bool, Span]], merged: Callable[[Parts, Parts], Parts]) -> Span:
    """A session of several; the parts of new ones come after those of known ones."""
    if len(group) == 1:
        return group[0][1]
    spans = [span for _, span in sorted(group, key=lambda one: one[0])]
    parts = spans[0][2]
    for span in spans[1:]:
        parts = merged(parts, span[2])
    return min(span[0] for span in spans), max(span[1] for span in spans), parts
