"""A window's time does not depend on how many keys are held, only on how many it touches."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.frame import Benchmark, Figures, Goal, Round

FIGURE = "window seconds"
WINDOWS = 100
SETTLED = 40
"""Windows after the last key has come, so that the state is merged as it is in the long run."""
SIZES = {"10 thousand": 10_000, "1 million": 1_000_000, "10 million": 10_000_000}


def hold(data: Path, held: int) -> None:
    """A checkpoint, named by the number, that holds so many keys."""
    from benchmarks import ours
    from benchmarks.apps import held_keys

    windows = -(-held // held_keys.LOADED) + SETTLED
    ours.run(Round(data, data), held_keys.application(held), windows, checkpoint=str(data / str(held)))
    if held_keys.Held.keys < held:
        msg = f"{held:,} keys are to be held; got {held_keys.Held.keys:,}"
        raise ValueError(msg)


def prepare(data: Path) -> None:
    """A checkpoint of each size."""
    for held in SIZES.values():
        hold(data, held)


def touch(of_round: Round, held: int) -> Figures:
    """Go on where the round before has ended."""
    from benchmarks import ours
    from benchmarks.apps import held_keys

    checkpoint = str(of_round.data / str(held))
    events = ours.run(of_round, held_keys.application(held), of_round.windows(WINDOWS) + 1, checkpoint=checkpoint)
    if held_keys.Held.keys != held:
        msg = f"{held:,} keys are to be held; got {held_keys.Held.keys:,}"
        raise ValueError(msg)
    of_round.note(ours.phases(of_round, events))
    return {FIGURE: of_round.warm(ours.window_times(events))}


BENCHMARKS = (
    Benchmark(
        name="held-keys",
        title="window time with many keys held, 10,000 touched in a window",
        contestants={name: partial(touch, held=held) for name, held in SIZES.items()},
        goals=[Goal(figure=FIGURE, of=name, against="10 thousand", at_most=1.2) for name in SIZES if name != "10 thousand"],
        prepare=prepare,
        budget_seconds=240,
    ),
)
