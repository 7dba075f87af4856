"""Metrics for other systems: Prometheus, OTLP."""
