"""A model that learns, without a library: it predicts the sum of all that it has learned."""

from __future__ import annotations

from collections.abc import Mapping


class Summing:
    """Predicts the sum of the values so far."""

    def __init__(self) -> None:
        self.sum = 0.0

    def predict_one(self, features: Mapping[str, float]) -> float:
        return self.sum

    def learn_one(self, features: Mapping[str, float]) -> None:
        self.sum += features["value"]
