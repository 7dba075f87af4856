"""Tables of a data lake: Delta."""

from ridgeline.operators.lake.delta_input import DeltaInput
from ridgeline.operators.lake.delta_output import DeltaOutput

__all__ = ["DeltaInput", "DeltaOutput"]
