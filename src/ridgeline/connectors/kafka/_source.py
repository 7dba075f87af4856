"""The driver's half of `KafkaInput`: partitions of topics, and how far each is."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.connect import Amount, Source, SourceContext, SourceUnavailableError
from ridgeline.connectors.kafka._client import (
    Cluster,
    admin_library,
    chosen,
    cluster_of,
    code_of,
    codes,
    library,
    listed,
    nearest,
    partition_name,
    parts_of,
    text_of,
    topic_ids,
)

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


class TopicIds:
    """The ids of topics, from run to run: one that is made again has another. `made_again`: those topics."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.made_again: set[str] = set()
        self._cluster: str | None = None

    def recall(self, admin: Any, memory: Any) -> bool:
        """Take those of the run before, once. False if they are of another cluster: they say nothing.

        Raises KafkaException.
        """
        if self._cluster is not None:
            return True
        self._cluster = cluster_of(admin)
        if memory is None or memory["cluster"] != self._cluster:
            return memory is None
        self.known = dict(memory["ids"])
        return True

    def memory(self) -> Any:
        """The value that `recall` takes in the next run; None before it is connected. Any thread asks."""
        return None if self._cluster is None else {"cluster": self._cluster, "ids": dict(self.known)}

    def look(self, admin: Any, topics: Collection[str]) -> None:
        """Find out which topics were deleted and made again."""
        if not topics:
            return
        try:
            found = topic_ids(admin, sorted(topics))
        except library().KafkaException:
            return  # others ask too, and say it
        self.made_again = {
            topic for topic, number in found.items() if self.known.setdefault(topic, number) != number
        }

    def settle(self) -> None:
        """The positions of topics that were made again are set back: take their new ids."""
        for topic in self.made_again:
            del self.known[topic]
        self.made_again = set()


_SECONDS = 10.0
"""How long a request may take."""
_BUSY_PAUSE, _IDLE_PAUSE = 0.004, 0.02
"""Seconds between two questions for the ends: while records come, and once none came for a while."""
_BUSY_SECONDS = 2.0
_GONE_AFTER = 3
"""A topic that so many lists lack is gone."""
_RESET_SECONDS = 10.0
"""An end below the one before counts once it has lasted so long: a broker that starts may say it."""
_GOODBYE_SECONDS = 0.2
_LOOK_SECONDS = 1.0
"""Ids of topics are looked at so often, and positions are committed to the user's group."""
_QUIET_SECONDS = 0.1
_CONTINUE = "begin anew with a fresh `--checkpoint`, or leave out what is lost with `when_lost='skip'`"


class Settings(NamedTuple):
    """The properties of a `KafkaInput` for its two halves."""

    topic: str | Sequence[str]
    servers: str
    options: Mapping[str, Any]
    isolation: str
    when_lost: str
    group: str | None

    def cluster(self, operator: str) -> Cluster:
        """Makes the clients of an operator."""
        return Cluster(self.servers, self.options, operator)

    def reading(self, group: str) -> dict[str, Any]:
        """The settings of a consumer."""
        return {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": self.isolation,
        }


class KafkaSource(Source):
    """The partitions of topics. Positions are offsets.

    Ends are last stable offsets with `isolation="read_committed"`: records behind an open transaction are not
    there yet.
    """

    poll_seconds = 0.1

    def __init__(self, properties: Settings) -> None:
        self._set = properties
        self._clock = SystemClock()
        self._admin: Any = None
        self._committing: Any = None
        self._names: list[str] = []
        self._ends: dict[str, int] = {}
        self._below: dict[str, float] = {}
        """Since when an end is below the one before."""
        self._missing: dict[str, int] = {}
        self._seen_topics: set[str] = set()
        self._ids = TopicIds()
        self._looked = self._said_positions = 0.0
        self._changed = 0.0
        self._positions: Mapping[str, Any] = {}
        self._sizes = Sizes()
        self._refused_commit = False

    def open(self, context: SourceContext) -> None:
        """Connect. Raises SourceUnavailableError, RidgelineError for options or a user that are refused."""
        self._context = context
        self._cluster = self._set.cluster(context.operator)
        self._admin = self._cluster.client("AdminClient", {})
        self._names = []
        self._known_topics()
        try:
            if not self._ids.recall(self._admin, context.memory):
                context.warn(
                    "the servers are of another cluster than before: it continues at the same positions"
                )
        except library().KafkaException as error:
            raise self._cluster.unavailable(error) from None
        self._cluster.error = None

    def close(self) -> None:
        """Let go of connections, after a last commit to the user's group."""
        with contextlib.suppress(Exception):
            self._commit_positions()
        if self._committing is not None:
            with contextlib.suppress(Exception):
                self._committing.poll(_GOODBYE_SECONDS)
                self._committing.close()
        self._sizes.close()
        self._admin = self._committing = None

    # Partitions ---------------------------------------------------------------------------------------------

    def partitions(self) -> Iterable[str]:
        """All partitions of the topics. Raises RidgelineError for a topic that is not there, or is gone."""
        known = self._known_topics()
        if not self._names:  # it is connected anew, and positions are set back
            self._ids.settle()
        topics, missing = chosen(listed(self._set.topic), known)
        self._missing = {topic: self._missing.get(topic, 0) + 1 for topic in missing}
        for topic in missing:
            if topic not in self._seen_topics:
                self._cluster.refuse_hidden(self._admin, topic, f"read `{topic}`")
                hint = nearest(topic, known)
                msg = f"`{self._context.operator}`: there is no topic `{topic}` at {self._set.servers}; "
                raise RidgelineError(msg + f"make it, or correct `topic`; {hint}")
            if self._missing[topic] >= _GONE_AFTER and self._set.when_lost == "fail":
                msg = (
                    f"`{self._context.operator}`: topic `{topic}` was deleted; make it again, and {_CONTINUE}"
                )
                raise RidgelineError(msg)
        self._seen_topics |= topics
        self._names = [partition_name(topic, number) for topic in sorted(topics) for number in known[topic]]
        return self._names

    def _known_topics(self) -> dict[str, list[int]]:
        """The topics of the cluster with their partitions. Raises SourceUnavailableError, RidgelineError."""
        try:
            found = self._cluster.topics(self._admin, _SECONDS)
        except library().KafkaException as error:
            raise self._cluster.unavailable(error) from None
        for topic in listed(self._set.topic):
            if topic in found:
                self._cluster.refuse(f"read `{topic}`", found[topic].error)
        return {name: sorted(topic.partitions) for name, topic in found.items() if topic.partitions}

    # Positions ----------------------------------------------------------------------------------------------

    def ends(self, wait: float) -> Mapping[str, int]:
        """The ends of all partitions; waits until one has changed, `wait` seconds at most.

        Raises SourceUnavailableError, RidgelineError for a topic that was made again.
        """
        began = self._clock.monotonic()
        while True:
            found, now = self._asked_ends(), self._clock.monotonic()
            if looks := now - self._looked >= _LOOK_SECONDS:
                self._looked = now
                self._admin.poll(0)  # the client's lines and errors wait for it
            if looks or self._is_doubtful(found, now):
                self._look_at_ids()
                if self._ids.made_again:  # `resume` sets its positions back
                    again = ", ".join(sorted(self._ids.made_again))
                    raise SourceUnavailableError(f"topic {again} was deleted and made again")
            if found != self._ends:
                self._changed = now
            new = any(self._ends.get(name) != end for name, end in found.items())
            self._ends = found
            if looks:
                self._sizes.look(found, self._sampler)
            if new or now - began >= wait:
                return dict(found)
            self._clock.wait(_BUSY_PAUSE if now - self._changed < _BUSY_SECONDS else _IDLE_PAUSE)

    def _is_doubtful(self, found: Mapping[str, int], now: float) -> bool:
        """Whether these may be the ends of topics that were made again: nothing came for a while before."""
        before = self._ends
        return found != before and (
            now - self._changed >= _QUIET_SECONDS
            or any(name not in before or end < before[name] for name, end in found.items())
        )

    def _look_at_ids(self) -> None:
        """Find out which topics were deleted and made again. Raises RidgelineError unless that may be."""
        self._ids.look(self._admin, self._seen_topics)
        if self._ids.made_again and self._set.when_lost == "fail":
            msg = f"`{self._context.operator}`: topic `{min(self._ids.made_again)}` is not the one that was "
            msg += f"read before: it was made again, and records of the one before may be lost; {_CONTINUE}"
            raise RidgelineError(msg)

    def _asked_ends(self) -> dict[str, int]:
        """The ends, but for those that are below the ones before: these may be of a broker that starts."""
        found = self._offsets(self._names, lambda spec: spec.latest())
        now = self._clock.monotonic()
        for name, end in list(found.items()):
            before = max(self._ends.get(name, 0), self._positions.get(name, 0))
            if end >= before:
                self._below.pop(name, None)
            elif now - self._below.setdefault(name, now) < _RESET_SECONDS:
                if name in self._ends:
                    found[name] = self._ends[name]
                else:
                    del found[name]
            else:  # `resume` says so, or finds where to go on
                self._ends.pop(name, None)
                self._below.pop(name, None)
                raise SourceUnavailableError(f"partition {name} ends at {end} now, and ended at {before}")
        return found

    def start(self, partitions: Sequence[str], begin: Any) -> Mapping[str, int]:
        """Where partitions begin: at their earliest offset, after the latest record, or at a time."""
        if begin == "earliest":
            return self._whole(partitions, lambda spec: spec.earliest())
        ends = self._whole(partitions, lambda spec: spec.latest())
        if begin == "latest":
            return ends
        milliseconds = int(begin.timestamp() * 1000)
        found = self._whole(partitions, lambda spec: spec.for_timestamp(milliseconds))
        return {name: ends[name] if offset < 0 else offset for name, offset in found.items()}

    def resume(self, positions: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check that the records after these positions are there.

        Raises RidgelineError if they are gone; with `when_lost="skip"` it returns where the next ones are.
        """
        known = self._known_topics()
        names = [name for name in positions if parts_of(name)[1] in known.get(parts_of(name)[0], ())]
        self._seen_topics |= {parts_of(name)[0] for name in positions}
        self._look_at_ids()
        firsts = self._whole(names, lambda spec: spec.earliest())
        ends = self._whole(names, lambda spec: spec.latest())
        found = dict(positions)
        for name in names:
            first, end, position = firsts[name], ends[name], positions[name]
            again = parts_of(name)[0] in self._ids.made_again
            if first <= position <= end and not again:
                continue
            if again:
                what = f"partition {name} is of a topic that was made again; records of the one before that "
                what += f"were not read by {position} are lost"
            elif position < first:
                what = f"records {position} to {first - 1} of partition {name} are gone (retention)"
            else:
                what = f"partition {name} ends at {end}, and was read up to {position}: "
                what += "it was made again, or cut"
            if self._set.when_lost == "fail":
                raise RidgelineError(f"`{self._context.operator}`: {what}; {_CONTINUE}")
            self._context.warn(f"{what}; it continues with record {first}")
            found[name] = first
        self._positions = found
        self._below.clear()
        self._ends = {}
        return found

    def remember(self, memory: Any, closed: Sequence[str]) -> Any:
        """The cluster, and the ids of the topics."""
        return self._ids.memory() or memory

    def amount(self, partition: str, start: int, end: int) -> Amount:
        """Offsets between two positions, and their bytes as samples say."""
        records = max(0, end - start)
        return Amount(float(records), records * self._sizes.of(parts_of(partition)[0]))

    def _whole(self, names: Sequence[str], spec: Callable[[Any], Any]) -> dict[str, int]:
        """The offsets of all of these partitions. Raises SourceUnavailableError if one does not answer."""
        found = self._offsets(names, spec)
        for name in names:
            if name not in found:
                raise SourceUnavailableError(f"Kafka at {self._set.servers}: partition {name} has no leader")
        return found

    def _offsets(self, names: Sequence[str], spec: Callable[[Any], Any]) -> dict[str, int]:
        """Offsets of partitions by name, of those that answer. Raises SourceUnavailableError."""
        if not names:
            return {}
        kafka, admin = library(), admin_library()
        level = kafka.IsolationLevel[self._set.isolation.upper()]
        asked = {kafka.TopicPartition(*parts_of(name)): spec(admin.OffsetSpec) for name in names}
        found: dict[str, int] = {}
        last: Exception | None = None
        try:
            answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=_SECONDS)
        except library().KafkaException as error:
            raise self._cluster.unavailable(error) from None
        for place, future in answers.items():
            try:
                offset = int(future.result().offset)
                if offset != kafka.OFFSET_INVALID:  # the client's answer where the broker gives none in time
                    found[partition_name(place.topic, place.partition)] = offset
            except library().KafkaException as error:
                self._cluster.refuse(f"read `{place.topic}`", error)
                last = error
        unknown = codes("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC")
        if not found and last is not None and code_of(last) not in unknown:
            raise self._cluster.unavailable(last)
        if not found and last is None:
            raise SourceUnavailableError(f"Kafka at {self._set.servers}: no answer within {_SECONDS:g} s")
        return found

    # Commits to the user's group ----------------------------------------------------------------------------

    def committed(self, positions: Mapping[str, Any]) -> None:
        """Note the positions, and commit them to the user's group, once a second at most."""
        self._positions = positions
        now = self._clock.monotonic()
        if self._set.group is not None and now - self._said_positions >= _LOOK_SECONDS:
            self._said_positions = now
            self._commit_positions()

    def _commit_positions(self) -> None:
        """Commit to the user's group: their tools see the lag. Nothing rests on it, so it only warns."""
        if self._set.group is None or not self._positions or self._admin is None:
            return
        if self._committing is None:
            own = {**self._set.reading(self._set.group), "on_commit": self._mention_commit}
            self._committing = self._cluster.client("Consumer", own)
        offsets = [
            library().TopicPartition(*parts_of(name), offset) for name, offset in self._positions.items()
        ]
        try:
            self._committing.commit(offsets=offsets, asynchronous=True)  # nothing waits for it
            self._committing.poll(0)
        except library().KafkaException as error:
            self._mention_commit(error, offsets)

    def _mention_commit(self, error: Any, places: Sequence[Any]) -> None:
        """Warn once that positions cannot be committed to the user's group, until they can again."""
        if error is None:
            self._refused_commit = False
        elif not self._refused_commit:
            self._refused_commit = True
            self._context.warn(f"cannot commit to the group `{self._set.group}`: {text_of(error)}")

    def _sampler(self) -> Any:
        """A consumer that looks at the sizes of records."""
        group = f"ridgeline.{self._context.application}.{self._context.operator}.sizes"
        return self._cluster.client("Consumer", self._set.reading(group))
