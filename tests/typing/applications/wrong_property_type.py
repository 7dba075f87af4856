"""Planted: a value of another type than the property's, by name and by position."""

from __future__ import annotations

from operators import Payment, PaymentInput
from ridgeline.operators import FileOutput, Filter, SparkInput


def is_large(payment: Payment) -> bool:
    return payment.cents > 1_000


PaymentInput(3)
PaymentInput(limit="3")  # error: text
PaymentInput("3")  # error: text, by position
PaymentInput(3, 4)  # error: too many
PaymentInput(3, limit=4)  # error: given twice
FileOutput(path="out", format="json")  # error: no such format
FileOutput()  # error: `path` is required
Filter(is_large)
Filter(3)  # error: no function
SparkInput("kafka", {"subscribe": "payments"}, schema=Payment)
SparkInput(5, {}, schema=Payment)  # error: a format is text
