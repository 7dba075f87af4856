"""Operators that give tuples another form, fill gaps in them, or collect and divide them."""

from ridgeline.operators.shaping.batch_up import BatchUp
from ridgeline.operators.shaping.fill_forward import FillForward
from ridgeline.operators.shaping.format import Format

__all__ = ["BatchUp", "FillForward", "Format"]
