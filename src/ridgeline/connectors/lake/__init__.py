"""Tables of a data lake: Delta and Iceberg."""

from ridgeline.connectors.lake.delta_output import DeltaOutput
from ridgeline.connectors.lake.iceberg_output import IcebergOutput

__all__ = ["DeltaOutput", "IcebergOutput"]
