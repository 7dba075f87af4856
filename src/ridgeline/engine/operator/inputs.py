"""What comes to an operator in a window: in the form that a port takes, with the times that pass on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.points import OutputPoint
from ridgeline.api.times import Processing


def there(inputs: Mapping[str, Iterable[Tuples]]) -> dict[str, Sequence[Tuples]]:
    """The inputs that have come already, by port."""
    return {port: parts if isinstance(parts, Sequence) else () for port, parts in inputs.items()}


def decoded(part: Tuples, schema: Schema, by_batch: bool) -> Tuples:  # noqa: FBT001  called by position
    """Tuples in the form in which a port takes them. Raises what they raise that cannot be had so."""
    tuples = part.read_as(schema)
    _ = tuples.batch if by_batch else tuples.rows
    return tuples


@contextmanager
def inheriting_times(points: Iterable[OutputPoint], processing: Processing) -> Iterator[None]:
    """What these ports emit meanwhile inherits the times of what is processed."""
    for point in points:
        point.begin(processing)
    yield
    for point in points:
        point.end()


def nothing_timed() -> None:
    """Nothing that came in the window had a time."""
