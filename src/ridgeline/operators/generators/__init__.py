"""Made-up records: the columns that `EventGenerator` fills."""

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

__all__ = [
    "Choice",
    "Column",
    "Integers",
    "Normal",
    "Numbered",
    "Times",
    "Uniform",
    "choice",
    "integers",
    "normal",
    "sequence",
    "times",
    "uniform",
]
