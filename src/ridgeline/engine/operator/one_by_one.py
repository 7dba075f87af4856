"""The loop over tuples that are processed one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized

from ridgeline.engine.operator.progress import Handler


def one_by_one(
    handler: Handler, tuples: Iterator[object], outputs: Sequence[Sized]
) -> list[Sequence[int] | None]:
    """Call `handler` for each tuple.

    Returns for each output its length after each of them, None if each made it one longer.
    """
    if not outputs:
        for one in tuples:
            handler(one)
        return []
    if len(outputs) == 1:
        return [_noted(handler, tuples, *outputs)]
    lengths: list[list[int]] = [[] for _ in outputs]
    for one in tuples:
        handler(one)
        for output, after in zip(outputs, lengths, strict=True):
            after.append(len(output))
    return list(lengths)


def _noted(handler: Handler, tuples: Iterator[object], output: Sized) -> Sequence[int] | None:
    """The same for one output; notes nothing as long as it grows by one."""
    start = length = len(output)
    for one in tuples:
        handler(one)
        length += 1
        if len(output) != length:
            break
    else:
        return None
    lengths = [*range(start + 1, length), len(output)]
    for one in tuples:
        handler(one)
        lengths.append(len(output))
    return lengths
