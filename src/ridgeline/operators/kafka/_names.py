"""Topics and their partitions as names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ridgeline.api.errors import did_you_mean


def partition_name(topic: str, partition: int) -> str:
    """The name of a topic's partition: `orders-0`."""
    return f"{topic}-{partition}"


def parts_of(name: str) -> tuple[str, int]:
    """Topic and number of a partition's name.

    >>> parts_of("new-orders-12")
    ('new-orders', 12)
    """
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def listed(topic: str | Sequence[str]) -> list[str]:
    """The topics and patterns of the property `topic`."""
    return [topic] if isinstance(topic, str) else list(topic)


def pattern_of(text: str) -> re.Pattern[str] | None:
    """The compiled pattern of a text that begins with `^`; None for a topic's name. Raises ValueError."""
    if not text.startswith("^"):
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"`{text}` is no regular expression: {error}") from None


def chosen(wanted: Iterable[str], known: Iterable[str]) -> tuple[set[str], list[str]]:
    """The topics that there are, by names and patterns; and the names that are not there.

    Topics of Kafka itself, such as `__consumer_offsets`, are read by name only.
    """
    there = set(known)
    found: set[str] = set()
    missing = []
    for one in wanted:
        pattern = pattern_of(one)
        if pattern is not None:
            found |= {topic for topic in there if not topic.startswith("__") and pattern.search(topic)}
        elif one in there:
            found.add(one)
        else:
            missing.append(one)
    return found, missing


def nearest(topic: str, known: Iterable[str]) -> str:
    """A hint which topic was meant."""
    return did_you_mean(topic, [name for name in known if not name.startswith("__")])
