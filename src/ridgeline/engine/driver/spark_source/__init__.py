"""Spark sources, on the driver: offsets, logs, how much waits."""
