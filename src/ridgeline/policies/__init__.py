"""Who decides: listeners of an operator's figures, and policies of an application."""

from ridgeline.measure.deciding.figures import (
    ApplicationFigures,
    OperatorFigures,
    PartitionFigures,
    PromiseState,
    SourceFigures,
    Spread,
)
from ridgeline.policies.answers import Answer, Decision, Expectation, Repartition, SetAttribute, SetProperty
from ridgeline.policies.listening import Policy, StatsListener

__all__ = [
    "Answer",
    "ApplicationFigures",
    "Decision",
    "Expectation",
    "OperatorFigures",
    "PartitionFigures",
    "Policy",
    "PromiseState",
    "Repartition",
    "SetAttribute",
    "SetProperty",
    "SourceFigures",
    "Spread",
    "StatsListener",
]
