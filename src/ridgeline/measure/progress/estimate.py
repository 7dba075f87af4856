"""Numbers that say how well they are known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ridgeline.measure.answers.progress import EstimateAnswer


class Basis(StrEnum):
    """How a number is known, the best first: counted, computed from averages, a lower bound, not at all."""

    EXACT = "exact"
    ESTIMATED = "estimated"
    LOWER_BOUND = "lower bound"
    UNKNOWN = "unknown"


_RANK = {basis: rank for rank, basis in enumerate(Basis)}


def weakest(bases: Iterable[Basis]) -> Basis:
    """The basis of what was computed from numbers with these: the weakest; `exact` if there are none."""
    return max(bases, key=_RANK.__getitem__, default=Basis.EXACT)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number that is not negative and may be infinite, and its basis.

    The basis is `unknown` exactly if there is no number.

    Other numbers are corrected rather than passed on: NaN is unknown, a negative number is 0.

    >>> Estimate(-1.0)
    Estimate(value=0.0, basis=<Basis.EXACT: 'exact'>)
    """

    value: float | None
    basis: Basis = Basis.EXACT

    def __post_init__(self) -> None:
        if self.value is None or self.basis is Basis.UNKNOWN or math.isnan(self.value):
            object.__setattr__(self, "value", None)
            object.__setattr__(self, "basis", Basis.UNKNOWN)
        elif self.value < 0:
            object.__setattr__(self, "value", 0.0)

    @property
    def known(self) -> bool:
        """True if there is a number, be it a lower bound."""
        return self.value is not None

    @property
    def infinite(self) -> bool:
        """True if the number is infinite."""
        return self.value == math.inf

    def to_json(self) -> EstimateAnswer:
        """The estimate for JSON; an infinite number has a null value and `"infinite": true`."""
        if self.infinite:
            return {"value": None, "basis": self.basis.value, "infinite": True}
        return {"value": self.value, "basis": self.basis.value}


UNKNOWN = Estimate(None, Basis.UNKNOWN)
NOTHING = Estimate(0.0)


def total(estimates: Iterable[Estimate]) -> Estimate:
    """The sum on the weakest basis.

    A lower bound if some are unknown, unknown if all are, 0 if there are none.
    """
    return _combined(estimates, sum)


def greatest(estimates: Iterable[Estimate]) -> Estimate:
    """The maximum on the weakest basis.

    A lower bound if some are unknown, unknown if all are, 0 if there are none.
    """
    return _combined(estimates, max)


def _combined(estimates: Iterable[Estimate], combine: Any) -> Estimate:
    given = tuple(estimates)
    if not given:
        return NOTHING
    values = [estimate.value for estimate in given if estimate.value is not None]
    if not values:
        return UNKNOWN
    basis = weakest(estimate.basis for estimate in given)
    return Estimate(float(combine(values)), Basis.LOWER_BOUND if basis is Basis.UNKNOWN else basis)
