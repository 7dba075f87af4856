"""How large the records of a topic are, by samples: windows are bounded by bytes, and backlog has them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ridgeline.operators.kafka._client import library
from ridgeline.operators.kafka._names import parts_of

_SAMPLE = 64
_AGAIN = 60
"""A topic is looked at again after so many calls."""
_OVERHEAD = 40
"""Bytes of a record beside its key and value, in memory."""


class Sizes:
    """The mean bytes of a record by topic. A thread of its own reads the samples: nothing waits for it."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}
        self._calls = 0
        self._seen: dict[str, int] = {}
        self._thread: threading.Thread | None = None

    def of(self, topic: str) -> float:
        """The mean bytes of a record; 0 while it is not known. From any thread."""
        return self._means.get(topic, 0.0)

    def look(self, ends: Mapping[str, int], consumer: Callable[[], Any]) -> None:
        """Take samples near the ends of partitions that have grown: of one partition a topic."""
        self._calls += 1
        if self._calls % _AGAIN != 1 or (self._thread is not None and self._thread.is_alive()):
            return
        longest: dict[str, tuple[int, str]] = {}
        for name, end in ends.items():
            topic = parts_of(name)[0]
            longest[topic] = max(longest.get(topic, (0, "")), (end, name))
        places = [(name, end) for end, name in longest.values() if end and self._seen.get(name) != end]
        self._seen.update(places)
        if places:
            self._thread = threading.Thread(
                target=self._sample, args=(places, consumer), name="ridgeline-kafka-sizes", daemon=True
            )
            self._thread.start()

    def _sample(self, places: list[tuple[str, int]], consumer: Callable[[], Any]) -> None:
        """Read a few records before these ends. Nothing rests on them, so errors are ignored."""
        with (
            contextlib.suppress(library().KafkaException, RuntimeError),
            contextlib.closing(consumer()) as made,
        ):
            for name, end in places:
                place = library().TopicPartition(*parts_of(name))
                low, _ = made.get_watermark_offsets(place, timeout=5.0)
                if low < end:
                    place.offset = max(low, end - _SAMPLE)
                    made.assign([place])
                    found = [one for one in made.consume(_SAMPLE, timeout=1.0) if one.error() is None]
                    size = sum(len(one.value() or b"") + len(one.key() or b"") + _OVERHEAD for one in found)
                    if found:
                        self._means[parts_of(name)[0]] = size / len(found)
                    made.unassign()

    def close(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join(10.0)
