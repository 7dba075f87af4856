"""Labels, states and bounds that metrics of several subjects share."""

from __future__ import annotations

# fmt: off
LATENCY_BOUNDS_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
    300.0, 600.0,
)
# fmt: on
"""Upper bounds, inclusive, of the latency histograms: 1 ms to 10 minutes."""
VERDICTS = (
    "keeping up",
    "paced",
    "catching up",
    "holding",
    "settling",
    "falling behind",
    "stuck",
    "unreachable",
    "unknown",
)
STATES = ("RUNNING", "PAUSED", "FINISHED", "STOPPED", "FAILED")
CHANGE_STATES = ("QUEUED", "APPLIED", "REFUSED", "WITHDRAWN")
OPERATOR = ("operator", "partition")
"""The labels of a physical operator."""
