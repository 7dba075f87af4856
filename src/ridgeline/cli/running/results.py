"""What sinks that keep tuples in memory have got: printed at the end of a run, which is when it goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from ridgeline.api.errors import shorten
from ridgeline.api.publisher import Publisher
from ridgeline.api.support.masking import printable
from ridgeline.cli.units import count, plural
from ridgeline.testing.collector import Collector
from ridgeline.testing.sinks import FirstLast, ResultPublisher, result_of

_SHOWN = 10
_MOST_SINKS = 20


def results(publishers: Mapping[str, Publisher]) -> Iterator[Text]:
    """The results of counting and hashing sinks, and the first and last tuples of those that collect."""
    sinks = [name for name, one in publishers.items() if isinstance(one, (Collector, ResultPublisher))]
    for name in sinks[:_MOST_SINKS]:
        yield Text()
        publisher = publishers[name]
        if isinstance(publisher, Collector) and not isinstance(publisher, FirstLast):
            yield from _collected(name, publisher)
        else:
            yield Text(printable(f"{name}: {shorten(result_of(publishers, name))}"))
    if len(sinks) > _MOST_SINKS:
        yield Text(f"and {plural(len(sinks) - _MOST_SINKS, 'sink')} more")


def _collected(name: str, collector: Collector) -> Iterator[Text]:
    found, first, last = collector.ends(_SHOWN)
    left_out = found - len(first) - len(last)
    yield Text(printable(f"{name} collected {plural(found, 'tuple')}{':' if found else ''}"))
    for row in first:
        yield Text(printable(f"  {shorten(row)}"))
    if left_out:
        yield Text(f"  ... {count(left_out)} more")
    for row in last:
        yield Text(printable(f"  {shorten(row)}"))
