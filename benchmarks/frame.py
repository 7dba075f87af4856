"""What a benchmark is: contestants that run in turn on the same data, and goals that compare their figures.

A module of this folder that is listed in `catalog.py` has `BENCHMARKS`, a sequence of `Benchmark`. A
contestant is a function of a `Round` that returns its figures: by name the samples of this round, one a warm
window or just one. A name says its unit: it ends in `seconds`, in `/s` (tuples a second) or in `bytes`. Each
contestant runs in a process of its own, each round anew, so it may start Spark, and leave it running at the
end. It checks its own result: what it raises is shown, and the others go on.

Contestants import what only they need inside of their function: operators of the module are sent to workers,
which import it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Figures = Mapping[str, Sequence[float]]

OURS = "ours"
WARM_UP = 50
"""Windows that are left out at the beginning of each run."""


@dataclass(frozen=True)
class Round:
    """What a contestant gets.

    `data`: the folder that the benchmark's `prepare` has filled, the same for all contestants and rounds; not
    to be changed, except by a contestant that continues from the round before. `folder`: an empty
    one for this contestant in this round, on the same disk. `number` counts from 0. `quick`: a trial whether
    it works; few windows, figures without meaning.
    """

    data: Path
    folder: Path
    number: int = 0
    quick: bool = False

    @property
    def first_warm(self) -> int:
        """The number of windows that are left out."""
        return 4 if self.quick else WARM_UP

    def windows(self, number: int) -> int:
        """How many windows to run: `number` and those that are left out; few in a trial."""
        return (min(number, 8) if self.quick else number) + self.first_warm

    def warm(self, samples: Sequence[float]) -> list[float]:
        """The samples of warm windows. Raises ValueError if there is none."""
        first = self.first_warm
        if len(samples) <= first:
            raise ValueError(
                f"more than {first} windows are needed, as the first are warm-up; got {len(samples)}"
            )
        return [float(sample) for sample in samples[first:]]

    def note(self, text: str) -> None:
        """Add a line below the contestant's figures: where the time went, what was checked."""
        with (self.folder / "notes.txt").open("a", encoding="utf-8") as notes:
            notes.write(f"{text.rstrip()}\n")


Contestant = Callable[[Round], Figures]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A contestant's figure is at most, or at least, so many times that of another one in the same round.

    With `difference` it is so much more instead, in the figure's unit. Without `against` the limit is in the
    figure's unit. `against_figure` is another figure to compare with.
    """

    figure: str
    against: str = ""
    at_most: float | None = None
    at_least: float | None = None
    of: str = OURS
    difference: bool = False
    against_figure: str = ""

    def __post_init__(self) -> None:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError(
                f"a goal has a limit; got at_most={self.at_most}, at_least={self.at_least}; give one of them"
            )
        object.__setattr__(self, "against_figure", self.against_figure or self.figure)

    def compare(self, of: float, against: float) -> float:
        """The figure compared: ratio or difference, or the figure itself."""
        if not self.against:
            return of
        if self.difference:
            return of - against
        return of / against if against else math.inf

    def met(self, compared: float) -> bool:
        """Whether what `compare` gave meets the goal."""
        return compared <= self.at_most if self.at_most is not None else compared >= (self.at_least or 0.0)


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Contestants in the order in which they run, `rounds` times (A B C, A B C, ...), and the goals.

    `budget_seconds`: no further round begins if it would take longer than that in all; a contestant that
    takes it alone is ended. `prepare` fills the folder `data` of the round that it gets, once in an
    invocation, in a process of its own. `part_of_all` False: runs only if asked for by name.
    """

    name: str
    title: str
    contestants: Mapping[str, Contestant]
    goals: Sequence[Goal]
    rounds: int = 3
    budget_seconds: float = 120.0
    prepare: Callable[[Round], None] | None = None
    part_of_all: bool = True

    def __post_init__(self) -> None:
        for goal in self.goals:
            for name in filter(None, (goal.of, goal.against)):
                if name not in self.contestants:
                    raise ValueError(
                        f"benchmark `{self.name}`: a goal names a contestant; got {name!r}; "
                        f"there are {', '.join(self.contestants)}"
                    )
