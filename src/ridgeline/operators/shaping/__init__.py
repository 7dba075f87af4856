"""Operators that give tuples another form, fill gaps in them, or collect and divide them."""

from ridgeline.operators.shaping.batch_up import BatchUp
from ridgeline.operators.shaping.fill_forward import FillForward
from ridgeline.operators.shaping.format import Format
from ridgeline.operators.shaping.split_by_share import SplitByShare

__all__ = ["BatchUp", "FillForward", "Format", "SplitByShare"]
