"""The ages of records at all places, as a fold over windows and publications: `/recordAge`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from ridgeline.measure.age.histogram import Distribution, Integers, Seconds
from ridgeline.measure.age.record_age import RecordAges, merged, older, place_order
from ridgeline.measure.answers.operators import RecordAgesAnswer, age_answer
from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.events import AgeSample, OutputPublished, WindowCommitted, WindowReported
from ridgeline.measure.topology import OperatorNode, Series, Topology, surplus

PENDING_SAMPLES = 512
"""How many samples of a partition wait to be published at most; above, the two oldest are merged."""


_Sample = tuple[int, float, AgeSample]
"""Taken at a commit: its last window, the moment that its ages are as of, on STRAM's clock, and these."""


def _bounded(samples: list[_Sample]) -> list[_Sample]:
    """At most `PENDING_SAMPLES`: where there are more, each of the older ones is one of two."""
    if len(samples) <= PENDING_SAMPLES:
        return samples
    half = PENDING_SAMPLES // 2 * 2
    together = [
        (last, at, merged(older(first, at - before), second))
        for (_, before, first), (last, at, second) in zip(samples[:half:2], samples[1:half:2], strict=True)
    ]
    return [*together, *samples[half:]]


class PublishAges:
    """Keeps the ages at the commit until readers may see the records. One thread at a time.

    An operator without a publisher reports no publishing and has no ages there.
    """

    def __init__(self) -> None:
        self._visible: dict[str, tuple[int, float]] = {}
        self._waiting: dict[str, dict[Series, list[_Sample]]] = {}
        """Of operators, samples that are not published yet."""

    def committed(
        self, name: str, series: Series, window_id: int, as_of: float, sample: AgeSample
    ) -> Iterator[tuple[Series, AgeSample, float]]:
        """A window's sample at the commit, as of a moment on STRAM's clock.

        Yields (series, sample, delay) if it is published already.
        """
        window, at = self._visible.get(name, (-1, 0.0))
        if window >= window_id:
            yield series, replace(sample, place="publish"), at - as_of
        else:
            waiting = self._waiting.setdefault(name, {})
            waiting[series] = _bounded([*waiting.get(series, ()), (window_id, as_of, sample)])

    def published(self, event: OutputPublished) -> Iterator[tuple[Series, AgeSample, float]]:
        """Readers see more. Yields (series, sample, delay) of what waited for it."""
        self._visible[event.operator] = (event.window_id, event.at)
        waiting = self._waiting.get(event.operator, {})
        for series, samples in waiting.items():
            waiting[series] = [one for one in samples if one[0] > event.window_id]
            for window, as_of, sample in samples:
                if window <= event.window_id:
                    yield series, replace(sample, place="publish"), event.at - as_of

    def planned(self, names: Collection[str]) -> None:
        """Replace the plan: bound what is kept of operators that it has not."""
        for known in (self._visible, self._waiting):
            for gone in surplus(known, names):
                del known[gone]


Listener = Callable[[str, AgeSample, float], None]
"""Is called with an operator's name, ages, and by how many seconds they are greater."""
_TRIFLE_SECONDS = 1e-6


class AgeFold:
    """The ages of the records of all operators; `Measurement` feeds it. One thread at a time.

    `from_newest`: ages are less that of the newest record that inputs have emitted in the window, or in the
    last one that had any. So a paced replay of old data shows by how much records fall behind it.
    `listener`: is called with all ages and the name of the logical operator.
    """

    def __init__(
        self, clocks: ClockOffsets, listener: Listener | None = None, *, from_newest: bool = False
    ) -> None:
        self._clocks = clocks
        self._from_newest = from_newest
        self._newest = 0.0
        """How old the newest record was when it was read. A trifle less: rounding makes no age negative."""
        self._topology = Topology((), ())
        self._nodes: dict[Series, OperatorNode] = {}
        self._ages = RecordAges()
        self._listener = listener
        self._publish = PublishAges()
        self._followed: dict[str, dict[str, list[tuple[Seconds, Integers]]]] = {}
        """Ages since they were taken, by operator and place, of those that somebody takes."""

    # Events in ----------------------------------------------------------------------------------------------

    def planned(self, topology: Topology) -> None:
        """Replace the plan. Ages go on by label and partition."""
        self._topology, self._nodes = topology, {node.series: node for node in topology.operators}
        self._ages.planned(self._nodes)
        self._publish.planned(set(topology.names))

    def window(self, event: WindowReported, commit: WindowCommitted) -> None:
        """Take a committed window of the plan in; the ages at `commit` are known only now."""
        letters, nodes = self._topology.letters, self._topology.by_id
        ages = {one: own for one, own in event.ages.items() if one not in letters}
        if not ages:
            return
        rows = event.operators[np.isin(event.operators["operator"], list(ages))]
        ended = dict(zip(rows["operator"].tolist(), rows["ended"].tolist(), strict=True))
        ahead = {
            one: self._clocks.offset(event.hosts[host], at)
            for host, (one, at) in zip(rows["host"].tolist(), ended.items(), strict=True)
        }
        if self._from_newest:
            self._read(ages, ahead)
        for operator, samples in ages.items():
            for sample in samples:
                node = nodes[operator]
                if sample.place != "commit":
                    self._add(node.series, sample, ahead[operator] - self._newest, commit.at)
                    continue
                as_of = (sample.as_of or ended[operator]) + self._newest
                self._add(node.series, sample, commit.committed - as_of, commit.at)
                waits = self._publish.committed(node.name, node.series, event.window_id, as_of, sample)
                for found in waits:
                    self._add(*found, commit.at)

    def _read(self, ages: Mapping[int, Iterable[AgeSample]], ahead: Mapping[int, float]) -> None:
        """Note how old the newest record was that inputs emitted. `ahead`: of STRAM's clock, by operator."""
        youngest = [
            sample.minimum + ahead[operator]
            for operator, samples in ages.items()
            for sample in samples
            if sample.place == "source"
        ]
        if youngest:
            self._newest = min(youngest) - _TRIFLE_SECONDS

    def published(self, event: OutputPublished) -> None:
        """Readers may see more."""
        for found in self._publish.published(event):
            self._add(*found, event.at)

    def _add(self, series: Series, sample: AgeSample, shift: float, at: float) -> None:
        # What waited at a partition that is gone is published by the first one.
        node = self._nodes.get(series) or self._nodes.get((series[0], 0))
        if node is None:
            return
        ages = self._ages.add(node.series, sample, at, shift)
        if self._listener is not None:
            self._listener(node.name, sample, shift)
        if (followed := self._followed.get(node.name)) is not None:
            followed.setdefault(sample.place, []).append(ages)

    # Answers out --------------------------------------------------------------------------------------------

    def take(self, names: Iterable[str]) -> dict[str, tuple[Seconds, Integers]]:
        """The ages at the last place that each of these operators has, since they were taken before.

        In seconds, and how many records each is of. They are kept from the first call on.
        """
        found = {}
        for name in names:
            followed = self._followed.setdefault(name, {})
            waiting = followed[max(followed, key=place_order)] if followed else []
            if waiting:
                seconds, counts = zip(*waiting, strict=True)
                found[name] = np.concatenate(seconds), np.concatenate(counts)
            for several in followed.values():
                several.clear()
        return found

    def answer(self, now: float, operator: str | None) -> RecordAgesAnswer:
        """The ages of the last minute, of all operators or of one (name or title)."""
        rows = (
            age_answer(node, place, self._ages.figures(node.series, place, now))
            for node in self._topology.operators
            if operator is None or operator in {node.name, node.title}
            for place in self._ages.places(node.series)
        )
        return {"operators": list(rows), "fromNewestRecord": self._from_newest}

    def totals(self) -> list[tuple[OperatorNode, str, Distribution]]:
        """All ages since the start, by operator and place."""
        return [
            (node, place, totals)
            for node in self._topology.operators
            for place in self._ages.places(node.series)
            if (totals := self._ages.totals(node.series, place)) is not None
        ]
