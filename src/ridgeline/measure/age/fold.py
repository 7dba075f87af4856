"""The ages of records at all places, as a fold over windows and publications: `/recordAge`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from ridgeline.measure.age.histogram import Integers, Seconds
from ridgeline.measure.age.publish_age import PublishAges
from ridgeline.measure.age.record_age import AgeTotals, RecordAges
from ridgeline.measure.answers.operators import RecordAgesAnswer, age_answer
from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.events import AgeSample, OperatorWindow, OutputPublished, RunEvent, WindowCommitted
from ridgeline.measure.topology import OperatorNode, Topology

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
        self._ages = RecordAges()
        self._listener = listener
        self._publish = PublishAges()

    # Events in ----------------------------------------------------------------------------------------------

    def planned(self, topology: Topology) -> None:
        """Replace the plan. The ages of operators that it does not have stay until `forget`."""
        self._topology = topology

    def inherit(self, operator_id: int, before: int) -> None:
        """An operator of a new plan takes over the ages of another one; both have them for now."""
        self._ages.inherit(operator_id, before)

    def settle(self, gone: Mapping[int, int | None]) -> None:
        """The plan counts. The last minute of operators that are gone is shown with others of their names."""
        for former, other in gone.items():
            if other is not None:
                self._ages.merge(other, former)
        self._publish.hand_over(gone)
        self._publish.keep(set(self._topology.names))

    def forget(self, operators: Collection[int]) -> None:
        """Drop all that is known of operators."""
        self._ages.forget(operators)

    def window(self, events: Iterable[RunEvent], commit: WindowCommitted) -> None:
        """Take a committed window in; the ages at `commit` are known only now."""
        known = self._topology.by_id
        windows = [one for one in events if isinstance(one, OperatorWindow) and one.operator in known]
        if self._from_newest:
            self._read(windows)
        for event in windows:
            for sample in event.ages:
                if sample.place != "commit":
                    shift = self._clocks.offset(event.host, event.ended) - self._newest
                    ages = self._ages.add(event.operator, sample, commit.at, shift)
                    self._say(event.operator, sample, shift, ages)
                    continue
                as_of = (sample.as_of or event.ended) + self._newest
                self._committed(event.operator, sample, commit.committed - as_of, commit.at)
                name = known[event.operator].name
                for found in self._publish.committed(name, event.operator, event.window_id, as_of, sample):
                    self._committed(*found, commit.at)

    def _read(self, windows: Iterable[OperatorWindow]) -> None:
        """Note how old the newest record was that inputs emitted."""
        youngest = [
            sample.minimum + self._clocks.offset(event.host, event.ended)
            for event in windows
            for sample in event.ages
            if sample.place == "source"
        ]
        if youngest:
            self._newest = min(youngest) - _TRIFLE_SECONDS

    def published(self, event: OutputPublished) -> None:
        """Readers may see more."""
        for found in self._publish.published(event):
            self._committed(*found, event.at)

    def _committed(self, operator: int, sample: AgeSample, delay: float, at: float) -> None:
        ages = self._ages.add_committed(operator, sample, delay, at)
        self._say(operator, sample, delay, ages)

    def _say(self, operator: int, sample: AgeSample, shift: float, ages: tuple[Seconds, Integers]) -> None:
        node = self._topology.by_id.get(operator)
        if node is None:
            return
        if self._listener is not None:
            self._listener(node.name, sample, shift)

    # Answers out --------------------------------------------------------------------------------------------

    def answer(self, now: float, operator: str | None) -> RecordAgesAnswer:
        """The ages of the last minute, of all operators or of one (name or title)."""
        rows = (
            age_answer(node, place, self._ages.figures(node.id, place, now))
            for node in self._topology.operators
            if operator is None or operator in {node.name, node.title}
            for place in self._ages.places(node.id)
        )
        return {"operators": list(rows), "fromNewestRecord": self._from_newest}

    def totals(self) -> list[tuple[OperatorNode, str, AgeTotals]]:
        """All ages since the start, by operator and place."""
        return [
            (node, place, totals)
            for node in self._topology.operators
            for place in self._ages.places(node.id)
            if (totals := self._ages.totals(node.id, place)) is not None
        ]
