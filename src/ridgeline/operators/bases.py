"""Bases of the library for operators of one's own.

The bases of inputs and outputs are in `ridgeline.connect`.
"""

from ridgeline.operators._divided import DividedOperator
from ridgeline.operators.frames._step import FrameStep, PredicateStep

__all__ = ["DividedOperator", "FrameStep", "PredicateStep"]
