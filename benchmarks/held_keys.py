"""A window's time does not depend on how many keys are held, only on how many it touches."""

from __future__ import annotations

import threading
import time
from functools import partial

from benchmarks.frame import Benchmark, Figures, Goal, Round

FIGURE = "window seconds"
WINDOWS = 100
SETTLE_SECONDS = 2.0
SETTLE_SECONDS_PER_MILLION = 1.5
"""Seconds of slow windows after all keys are held, so that the state is compacted as in a long run."""
SIZES = {"10 thousand": 10_000, "1 million": 1_000_000, "10 million": 10_000_000}


def size(of_round: Round, name: str) -> int:
    """How many keys a contestant holds; a trial is done with fewer."""
    return SIZES[name] // 100 if of_round.quick else SIZES[name]


def hold(of_round: Round, held: int) -> None:
    """Make a checkpoint, named by the number, that holds so many keys."""
    from benchmarks import ours
    from benchmarks.apps import held_keys

    over = threading.Event()

    def wait() -> None:
        while not held_keys.Held.keys or held_keys.Held.keys < held:
            time.sleep(0.05)
        time.sleep(SETTLE_SECONDS + SETTLE_SECONDS_PER_MILLION * held / 1e6)
        over.set()

    held_keys.Held.keys = 0
    threading.Thread(target=wait, daemon=True).start()
    checkpoint = str(of_round.data / str(held))
    ours.run(
        of_round,
        held_keys.application(held),
        None,
        checkpoint=checkpoint,
        attributes={"window": "50ms"},
        stop=over,
    )
    if held_keys.Held.keys < held:
        raise ValueError(f"{held:,} keys are to be held; got {held_keys.Held.keys:,}")


def prepare(of_round: Round) -> None:
    """A checkpoint of each size."""
    for name in SIZES:
        hold(of_round, size(of_round, name))


def touch(of_round: Round, name: str) -> Figures:
    """Go on where the round before has ended."""
    from benchmarks import ours
    from benchmarks.apps import held_keys

    held = size(of_round, name)
    checkpoint = str(of_round.data / str(held))
    seen = ours.run(
        of_round, held_keys.application(held), of_round.windows(WINDOWS) + 1, checkpoint=checkpoint
    )
    if held_keys.Held.keys != held:
        raise ValueError(f"{held:,} keys are to be held; got {held_keys.Held.keys:,}")
    return {FIGURE: of_round.warm(ours.window_times(seen))}


BENCHMARKS = (
    Benchmark(
        name="held-keys",
        title="window time with many keys held, 10,000 touched in a window",
        contestants={name: partial(touch, name=name) for name in SIZES},
        goals=[
            *(
                Goal(figure=FIGURE, of=name, against="10 thousand", at_most=1.5)
                for name in SIZES
                if name != "10 thousand"
            ),
            Goal(figure=FIGURE, of="10 million", at_most=0.015),
        ],
        prepare=prepare,
        budget_seconds=190,
    ),
)
