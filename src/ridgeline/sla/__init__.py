"""What an application has promised: latency, progress, errors; kept or broken since when."""

from ridgeline.sla.alert_rules import alert_rules
from ridgeline.sla.hooks import Hook
from ridgeline.sla.keeping import Keeping, Observation
from ridgeline.sla.promises import (
    Promise,
    caught_up_within,
    error_share,
    late_share,
    latency,
    throughput,
    window_latency,
)

__all__ = [
    "Hook",
    "Keeping",
    "Observation",
    "Promise",
    "alert_rules",
    "caught_up_within",
    "error_share",
    "late_share",
    "latency",
    "throughput",
    "window_latency",
]
