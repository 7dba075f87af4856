"""The steps of `fraud.py`, which reads files, and of `live.py`, which reads Kafka: payments to their risks."""

from typing import NamedTuple

from ridgeline import Stream
from ridgeline.operators import aggregate as agg


class Payment(NamedTuple):
    id: str
    user: str
    cents: int
    hour: int


def risks(payments: Stream[Payment]) -> Stream:
    """Features of each user so far, then the model's answer."""
    by_user = payments.group_by("user").aggregate(
        "by_user",
        id=agg.last("id"),
        cents=agg.last("cents"),
        hour=agg.last("hour"),
        usual=agg.mean("cents"),
        emit="records",
    )
    return by_user.with_columns("features", ratio="cents / usual").predict(
        "score",
        "fraud-1.onnx",
        ["ratio", "hour"],
        "risk",
        method="probabilities",
        pick=1,
        version_column="model",
    )


def risky(scores: Stream) -> Stream:
    """Those to be looked at."""
    return scores.filter("risky", "risk > 0.5")
