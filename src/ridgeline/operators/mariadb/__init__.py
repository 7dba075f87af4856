"""MariaDB and MySQL: an output that writes each window once."""

from ridgeline.operators.mariadb.output import MariaDbOutput

__all__ = ["MariaDbOutput"]
