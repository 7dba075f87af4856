"""Tables of a data lake: Delta and Iceberg."""

from ridgeline.operators.lake.delta_output import DeltaOutput
from ridgeline.operators.lake.iceberg_output import IcebergOutput

__all__ = ["DeltaOutput", "IcebergOutput"]
