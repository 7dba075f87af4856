"""Planted: a property that the operator does not have."""

from __future__ import annotations

from operators import PaymentInput
from ridgeline.operators import ConsoleOutput, FileOutput

PaymentInput(limit=3)
PaymentInput(limits=3)  # error: the property is `limit`
ConsoleOutput(string_format="{}", limitt=5)  # error: the property is `limit`
FileOutput(path="out", fmt="jsonl")  # error: the property is `format`
