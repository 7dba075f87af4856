"""Randomness after a fork: each worker seeds again what was seeded from the system's entropy.

A forked process has a copy of every generator of its parent. Without this, all workers would draw the same
numbers. Python seeds the functions of `random` itself. A generator that got a seed of the author's keeps it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import weakref
from collections.abc import Iterator
from random import Random, SystemRandom
from typing import Any

_SEEDS_OF_LIBRARIES = {
    "numpy.random": lambda numpy_random: numpy_random.seed(),
    "torch": lambda torch: torch.seed(),
    "polars": lambda polars: polars.set_random_seed(int.from_bytes(os.urandom(8), "little") >> 1),
}
"""How the generator of a whole library, if it is loaded, gets a seed of the system's."""
_LEAST_ENTROPY = 1 << 96
"""numpy draws 128 bits without a seed. A smaller seed is the author's."""

_unseeded: weakref.WeakSet[Random] = weakref.WeakSet()
_generators: list[Any] = []


@contextlib.contextmanager
def watched_seeds() -> Iterator[None]:
    """Note which `random.Random` made in this block gets no seed of the author's: it does not show later."""
    original = Random.seed

    def seed(self: Random, a: Any = None, version: int = 2) -> None:
        original(self, a, version)
        if a is None:
            _unseeded.add(self)
        else:
            _unseeded.discard(self)

    Random.seed = seed  # type: ignore[method-assign]
    try:
        yield
    finally:
        Random.seed = original  # type: ignore[method-assign]


def seed_after_fork() -> None:
    """Seed again, in each child, the generators that exist now and the libraries that are loaded.

    Call it once, before `gc.freeze`: what is frozen is not found.
    """
    _generators.extend(one for one in gc.get_objects() if _is_unseeded(one))
    os.register_at_fork(after_in_child=_seed)


def _is_unseeded(value: object) -> bool:
    kind: Any = type(value)
    if kind is Random or (issubclass(kind, Random) and not issubclass(kind, SystemRandom)):
        return value in _unseeded
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is None or not issubclass(kind, numpy_random.BitGenerator | numpy_random.RandomState):
        return False
    bits: Any = getattr(value, "_bit_generator", value)
    entropy = getattr(getattr(bits, "seed_seq", None), "entropy", None)
    return isinstance(entropy, int) and entropy >= _LEAST_ENTROPY


def _seed() -> None:
    for name, seed in _SEEDS_OF_LIBRARIES.items():
        if name in sys.modules:
            with contextlib.suppress(Exception):  # half loaded: it has no generator yet
                seed(sys.modules[name])
    for generator in _generators:
        if hasattr(generator, "seed"):
            generator.seed()
        else:
            generator.state = type(generator)().state
