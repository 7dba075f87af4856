"""A run, on the driver: from its launch to its end."""
