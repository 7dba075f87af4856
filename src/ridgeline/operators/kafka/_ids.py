"""The ids of the topics that are read: a topic that is made again has another one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ridgeline.operators.kafka._client import cluster_of, library, topic_ids


class TopicIds:
    """The ids of topics, from run to run. `made_again`: since when topics are known to have another one."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.made_again: dict[str, float] = {}
        self.met: set[str] = set()
        """The topics that had their known id once in this run."""
        self._cluster: str | None = None

    def recall(self, admin: Any, memory: Any) -> bool:
        """Take those of the run before, once. False if they are of another cluster: they say nothing.

        Raises KafkaException.
        """
        if self._cluster is not None:
            return True
        self._cluster = cluster_of(admin)
        if memory is None:
            return True
        if memory["cluster"] != self._cluster:
            return False
        self.known = dict(memory["ids"])
        return True

    def memory(self) -> Any:
        """The value that `recall` takes in the next run; None before it is connected. Any thread asks."""
        return None if self._cluster is None else {"cluster": self._cluster, "ids": dict(self.known)}

    def look(self, admin: Any, topics: Collection[str], now: float) -> None:
        """Find out which topics were deleted and made again."""
        if not topics:
            return
        try:
            found = topic_ids(admin, sorted(topics))
        except library().KafkaException:
            return  # others ask too, and say it
        for topic, number in found.items():
            if self.known.setdefault(topic, number) == number:
                self.met.add(topic)
            else:
                self.made_again.setdefault(topic, now)

    def settle(self) -> None:
        """The positions of topics that were made again are set back: take their new ids."""
        self.known = {topic: one for topic, one in self.known.items() if topic not in self.made_again}
        self.made_again.clear()
