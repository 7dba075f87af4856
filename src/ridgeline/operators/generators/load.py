"""Profiles of load: how many records are due after so many seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ridgeline.api.support.duration import parse_duration


@dataclass(frozen=True)
class Sine:
    """See `sine`.

    Example:
        >>> sine(100, 50, period="1h").period
        3600.0
    """

    mean: float
    amplitude: float
    period: float

    def due(self, seconds: float) -> float:
        """The records of so many seconds."""
        turn = 2 * math.pi / self.period
        return self.mean * seconds + self.amplitude / turn * (1 - math.cos(turn * seconds))


@dataclass(frozen=True)
class Steps:
    """See `steps`.

    Example:
        >>> steps({0: 100, "1m": 500}).begins
        (0.0, 60.0)
    """

    begins: tuple[float, ...]
    rates: tuple[float, ...]

    def due(self, seconds: float) -> float:
        """The records of so many seconds."""
        ends = (*self.begins[1:], math.inf)
        return sum(
            rate * max(0.0, min(seconds, end) - begin)
            for begin, end, rate in zip(self.begins, ends, self.rates, strict=True)
        )


@dataclass(frozen=True)
class Burst:
    """See `burst`.

    Example:
        >>> burst(10, 1000, every="1m", lasting="5s").due(60)
        5550.0
    """

    base: float
    peak: float
    every: float
    lasting: float

    def due(self, seconds: float) -> float:
        """The records of so many seconds."""
        turns, rest = divmod(seconds, self.every)
        high = turns * self.lasting + min(rest, self.lasting)
        return self.base * (seconds - high) + self.peak * high


Load = Sine | Steps | Burst
"""All profiles, beside a number of records a second."""


def sine(mean: float, amplitude: float, *, period: float | str) -> Sine:
    """Records a second that rise and fall about a mean, as by day and night.

    Raises ValueError if they would fall below 0.
    """
    seconds = parse_duration(period)
    if not (0 <= amplitude <= mean < math.inf) or not seconds:
        raise ValueError(
            f"`sine` takes a mean, an amplitude up to it, and a period; got {mean}, {amplitude}, {period!r}"
        )
    return Sine(float(mean), float(amplitude), seconds)


def steps(rates: Mapping[float | str, float]) -> Steps:
    """Records a second that change after so long: `steps({0: 100, "1m": 500})`.

    Raises ValueError if the first does not begin at 0, and for rates below 0.
    """
    ordered = sorted((parse_duration(begin), float(rate)) for begin, rate in rates.items())
    if not ordered or ordered[0][0] or not all(0 <= rate < math.inf for _, rate in ordered):
        raise ValueError(
            f"`steps` takes records a second by when they begin, the first at 0; got {dict(rates)!r}"
        )
    return Steps(tuple(begin for begin, _ in ordered), tuple(rate for _, rate in ordered))


def burst(base: float, peak: float, *, every: float | str, lasting: float | str) -> Burst:
    """`base` records a second, and `peak` ones at the begin of each `every` for as long as `lasting`.

    Raises ValueError for rates below 0, and bursts that last longer than their distance.
    """
    distance, length = parse_duration(every), parse_duration(lasting)
    if not (0 <= base < math.inf and 0 <= peak < math.inf and 0 < length <= distance):
        given = f"{base}, {peak}, {every!r} and {lasting!r}"
        raise ValueError(f"`burst` takes two rates, and `lasting` up to `every`; got {given}")
    return Burst(float(base), float(peak), distance, length)
