"""How old records are when an operator is done with them: noted in its window, worked out after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ridgeline.api.attributes import RecordingLevel
from ridgeline.api.columns.dead_letter import NAME as DEAD_LETTERS
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.operator import InputOperator, is_stateless
from ridgeline.api.times import NO_TIME, Microseconds, Times
from ridgeline.engine.operator.input import emitted_times
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Emitted, Turn, TurnPart
from ridgeline.measure.age.record_age import LEVELS, sample
from ridgeline.measure.events import AgeSample

_PER_SECOND = 1_000_000
_SMALL = 8_192


def places(level: RecordingLevel, *, source: bool, leaf: bool, stateful: bool) -> tuple[str, ...]:
    """Where an operator's ages are taken: an input operator is a source and nothing else.

    >>> places(RecordingLevel.TRACE, source=False, leaf=True, stateful=True)
    ('state', 'emit', 'commit')
    """
    # `publish` is worked out from `commit`
    found = ("source",) if source else ("state",) * stateful + ("emit", "commit") * leaf
    return tuple(place for place in found if level is RecordingLevel.TRACE or LEVELS[place] == level)


class RecordAges(TurnPart):
    """Notes when an operator is done with its records, and works out their ages at its `places`."""

    def __init__(self, instance: Instance, places: Sequence[str]) -> None:
        super().__init__(instance)
        self._places = places
        self._seen: list[tuple[Tuples | Times, float]] = []

    @classmethod
    def of(cls, instance: Instance) -> RecordAges | None:
        """None if no ages are taken of its records."""
        source = isinstance(instance.operator, InputOperator)
        leaf, stateful = instance.spec.outputs.keys() <= {DEAD_LETTERS}, not is_stateless(instance.operator)
        found = places(instance.level, source=source, leaf=leaf, stateful=stateful)
        kind = EmittedAges if source else ProcessedAges
        return kind(instance, found) if found else None

    def begin(self, turn: Turn) -> None:
        """Drop the notes of an attempt before."""
        self._seen = []

    def ages(self, ended: float) -> list[AgeSample]:
        """The ages of the window that ended then; nothing if it failed."""
        seen, self._seen = self._seen, []
        every = ((one.times if isinstance(one, Tuples) else one, now) for one, now in seen)
        parts = [(times, now) for times, now in every if times is not None]
        if not parts:
            return []
        now = parts[-1][1]
        readings = [round(reading * _PER_SECOND) for _, reading in parts]
        shifts = [readings[-1] - reading for reading in readings]  # give the ages as of the last reading
        batches = [times for times, _ in parts]
        newest, oldest = _shifted(batches, shifts)
        samples: list[AgeSample] = []
        for place in self._places:
            if place == "commit" and any(shifts):
                found = sample(place, *_shifted(batches, [0] * len(batches)), ended)
            elif place == "commit" and samples:
                found = replace(samples[0], place=place, as_of=now)
            elif samples:
                found = replace(samples[0], place=place)
            else:
                found = sample(place, newest, oldest, now)
            samples += [found] if found is not None else []
        return samples


class ProcessedAges(RecordAges):
    """Of the records that an operator has processed."""

    def processed(self, turn: Turn, tuples: Tuples) -> None:
        """Note when a sequence of tuples has been processed."""
        if tuples.timed:
            self._seen.append((tuples, turn.timeline.now()))


class EmittedAges(RecordAges):
    """Of the records that an input has emitted: all by the end of its turn."""

    _done = 0.0

    def end(self, turn: Turn) -> None:
        """Note when an input operator is done."""
        self._done = turn.timeline.now()

    def report(self, turn: Turn, emitted: Emitted) -> None:
        """All that it has emitted was emitted by then."""
        self._seen += [(times, self._done) for times in emitted_times(self.instance, emitted)]


def _shifted(
    batches: Sequence[Times], shifts: Sequence[int]
) -> tuple[list[Microseconds], list[Microseconds] | None]:
    """The newest and the oldest times of batches, later by a shift each."""
    newest = _later([times.newest for times in batches], shifts)
    if all(times.oldest is None for times in batches):
        return newest, None
    return newest, _later(
        [times.newest if times.oldest is None else times.oldest for times in batches], shifts
    )


def _later(batches: list[Microseconds], shifts: Sequence[int]) -> list[Microseconds]:
    """Times later by a shift for each batch. Many small batches become one: each costs some calls."""
    counts = [len(batch) for batch in batches]
    if sum(counts) < len(batches) * _SMALL:
        joined, shift = np.concatenate(batches), np.repeat(np.array(shifts, np.int64), counts)
        return [np.where(joined == NO_TIME, joined, joined + shift) if any(shifts) else joined]
    return [
        np.where(batch == NO_TIME, batch, batch + shift) if shift else batch
        for batch, shift in zip(batches, shifts, strict=True)
    ]
