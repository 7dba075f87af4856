"""How old records are when readers may see them: outputs may hold results back for longer than a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ridgeline.measure.age.record_age import merged, older
from ridgeline.measure.events import AgeSample, OutputPublished

PENDING_SAMPLES = 512
"""How many samples of a partition wait to be published at most; above, the two oldest are merged."""


@dataclass(slots=True)
class _Waiting:
    """Samples taken at commits that are not published yet.

    Each with its last window and the moment that its ages are as of, on STRAM's clock.
    """

    samples: list[tuple[int, float, AgeSample]] = field(default_factory=list)

    def add(self, window_id: int, as_of: float, sample: AgeSample) -> None:
        self.samples.append((window_id, as_of, sample))
        if len(self.samples) > PENDING_SAMPLES:
            half = PENDING_SAMPLES // 2 * 2
            pairs = zip(self.samples[:half:2], self.samples[1:half:2], strict=True)
            together = [
                (last, at, merged(older(first, at - before), second))
                for (_, before, first), (last, at, second) in pairs
            ]
            self.samples = [*together, *self.samples[half:]]

    def take(self, window_id: int) -> list[tuple[int, float, AgeSample]]:
        gone = [one for one in self.samples if one[0] <= window_id]
        self.samples = self.samples[len(gone) :]
        return gone


class PublishAges:
    """Keeps the ages at the commit until readers may see the records. One thread at a time.

    An operator without a publisher reports no publishing and has no ages there.
    """

    def __init__(self) -> None:
        self._visible: dict[str, tuple[int, float]] = {}
        self._waiting: dict[str, dict[int, _Waiting]] = {}

    @property
    def pending(self) -> int:
        """How many samples wait."""
        return sum(
            len(waiting.samples) for operators in self._waiting.values() for waiting in operators.values()
        )

    def committed(
        self, name: str, operator: int, window_id: int, as_of: float, sample: AgeSample
    ) -> Iterator[tuple[int, AgeSample, float]]:
        """A window's sample at the commit, as of a moment on STRAM's clock.

        Yields (operator, sample, delay) if it is published already.
        """
        window, at = self._visible.get(name, (-1, 0.0))
        if window >= window_id:
            yield operator, replace(sample, place="publish"), at - as_of
        else:
            self._waiting.setdefault(name, {}).setdefault(operator, _Waiting()).add(window_id, as_of, sample)

    def published(self, event: OutputPublished) -> Iterator[tuple[int, AgeSample, float]]:
        """Readers see more. Yields (operator, sample, delay) of what waited for it."""
        self._visible[event.operator] = (event.window_id, event.at)
        for operator, waiting in self._waiting.get(event.operator, {}).items():
            for _, as_of, sample in waiting.take(event.window_id):
                yield operator, replace(sample, place="publish"), event.at - as_of

    def hand_over(self, heirs: Mapping[int, int | None]) -> None:
        """Samples of operators that a new plan does not have wait with others of their names."""
        for operators in self._waiting.values():
            for gone in operators.keys() & heirs.keys():
                waiting, heir = operators.pop(gone), heirs[gone]
                if heir is not None:
                    own = operators.setdefault(heir, _Waiting()).samples
                    own[:] = sorted([*own, *waiting.samples], key=lambda one: one[0])

    def keep(self, names: set[str]) -> None:
        """Forget operators that a new plan has no more."""
        for known in (self._visible, self._waiting):
            for gone in known.keys() - names:
                del known[gone]
