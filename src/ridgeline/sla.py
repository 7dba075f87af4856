"""What an application promises, as its author imports it: latency, progress, errors."""

from ridgeline.api.policy import (
    Promise,
    caught_up_within,
    error_share,
    late_share,
    latency,
    loss,
    record_age,
    throughput,
    window_latency,
)
from ridgeline.policies.keeping import Keeping, Observation

__all__ = [
    "Keeping",
    "Observation",
    "Promise",
    "caught_up_within",
    "error_share",
    "late_share",
    "latency",
    "loss",
    "record_age",
    "throughput",
    "window_latency",
]
