"""Planted: an attribute that the platform does not have, or of another type."""

from __future__ import annotations

from operators import Balances
from ridgeline import Application, ProcessingMode

app = Application("attributes", window="1s", heartbeat_timeout="1m")
app.add_operator("right", Balances(), partitions=2, processing_mode="AT_MOST_ONCE")
app.add_operator("also right", Balances(), processing_mode=ProcessingMode.EXACTLY_ONCE)
app.add_operator("name", Balances(), partition=2)  # error: the attribute is `partitions`
app.add_operator("type", Balances(), partitions="two")  # error: a number
app.add_operator("mode", Balances(), processing_mode="SOMETIMES")  # error: no such mode
Application("name", snapshot_intervall=3)  # error: the attribute is `snapshot_interval`
Application("scope", partitions=3)  # error: an attribute of operators
