"""Tables of a data lake: Delta and Iceberg."""

from ridgeline.operators.lake.delta_input import DeltaInput
from ridgeline.operators.lake.delta_output import DeltaOutput
from ridgeline.operators.lake.iceberg_input import IcebergInput
from ridgeline.operators.lake.iceberg_output import IcebergOutput

__all__ = ["DeltaInput", "DeltaOutput", "IcebergInput", "IcebergOutput"]
