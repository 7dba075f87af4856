"""MariaDB and MySQL: an output that writes each window once, and an input of tables that are appended to."""

from ridgeline.operators.mariadb.input import MariaDbInput
from ridgeline.operators.mariadb.output import MariaDbOutput

__all__ = ["MariaDbInput", "MariaDbOutput"]
