"""Patterns in the records of a key, which `Detect` looks for: one file for each, or for two that are near."""

from ridgeline.operators.patterns.absence import absence
from ridgeline.operators.patterns.change_point import change_point, ewma, zscore
from ridgeline.operators.patterns.pattern import Deadline, Found, NumberPattern, Pattern
from ridgeline.operators.patterns.rate import burst, rate
from ridgeline.operators.patterns.sequence import sequence
from ridgeline.operators.patterns.streak import hysteresis, streak

__all__ = [
    "Deadline",
    "Found",
    "NumberPattern",
    "Pattern",
    "absence",
    "burst",
    "change_point",
    "ewma",
    "hysteresis",
    "rate",
    "sequence",
    "streak",
    "zscore",
]
