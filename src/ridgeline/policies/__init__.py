"""Who decides and what is promised: listeners, policies, decisions, whether promises are kept."""

from ridgeline.api.policy import Policy, StatsListener
from ridgeline.measure.deciding.figures import (
    ApplicationFigures,
    OperatorFigures,
    PartitionFigures,
    PromiseState,
    SourceFigures,
    Spread,
)
from ridgeline.measure.deciding.key_load import HeavyKey, KeyLoad
from ridgeline.policies.answers import Answer, Decision, Expectation, Repartition, SetAttribute, SetProperty
from ridgeline.policies.bounds import Bounds
from ridgeline.policies.critical_path import CriticalPathPolicy
from ridgeline.policies.skew import SkewPolicy

__all__ = [
    "Answer",
    "ApplicationFigures",
    "Bounds",
    "CriticalPathPolicy",
    "Decision",
    "Expectation",
    "HeavyKey",
    "KeyLoad",
    "OperatorFigures",
    "PartitionFigures",
    "Policy",
    "PromiseState",
    "Repartition",
    "SetAttribute",
    "SetProperty",
    "SkewPolicy",
    "SourceFigures",
    "Spread",
    "StatsListener",
]
