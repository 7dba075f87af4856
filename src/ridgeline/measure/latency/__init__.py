"""Where the time of a window goes: latency, critical path, blame, phases."""
