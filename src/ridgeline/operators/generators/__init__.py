"""Made-up records: the columns that `EventGenerator` fills, and the load that it makes."""

from ridgeline.operators.generators.columns import (
    Choice,
    Column,
    Integers,
    Normal,
    Numbered,
    Times,
    Uniform,
    choice,
    integers,
    normal,
    sequence,
    times,
    uniform,
)
from ridgeline.operators.generators.load import Burst, Load, Sine, Steps, burst, sine, steps

__all__ = [
    "Burst",
    "Choice",
    "Column",
    "Integers",
    "Load",
    "Normal",
    "Numbered",
    "Sine",
    "Steps",
    "Times",
    "Uniform",
    "burst",
    "choice",
    "integers",
    "normal",
    "sequence",
    "sine",
    "steps",
    "times",
    "uniform",
]
