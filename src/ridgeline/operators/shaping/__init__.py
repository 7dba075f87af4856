"""Operators that give tuples another form, or fill gaps in them."""

from ridgeline.operators.shaping.fill_forward import FillForward
from ridgeline.operators.shaping.format import Format

__all__ = ["FillForward", "Format"]
