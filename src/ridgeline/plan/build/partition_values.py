"""Properties and attributes that one partition of an operator has of its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ridgeline.api.attributes import ATTRIBUTES
from ridgeline.api.errors import did_you_mean, shorten
from ridgeline.api.operator import Operator, SparkSource, operator_type
from ridgeline.api.partitioner import Partition
from ridgeline.api.support.masking import shown
from ridgeline.plan.build.property_values import property_faults, settle

_OF_PARTITIONS = (
    "memory_mb",
    "vcores",
    "gpus",
    "callback_timeout",
    "timeout_window_count",
    "error_tuples_kept",
)
"""Attributes that may differ among partitions of an operator: each concerns one partition alone."""


class PartitionValueError(ValueError):
    """A partition has a wrong value: `what` is wrong, and the `remedy`."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


def own_properties(operator: Operator, part: Partition) -> dict[str, Any]:
    """The properties of a partition, validated and converted. Raises PartitionValueError."""
    if not part.properties:
        return {}
    given = dict(part.properties)
    known = set(operator_type(type(operator)).properties) - {"context"}
    unknown = [name for name in given if name not in known]
    if unknown:
        what = f"`{type(operator).__name__}` has no property {_named(unknown[0])}"
        raise PartitionValueError(what, did_you_mean(str(unknown[0]), known))
    reader = "Spark's query" if isinstance(operator, SparkSource) else "its publisher"
    if isinstance(operator, SparkSource) or type(operator).publisher is not Operator.publisher:
        what = f"property `{next(iter(given))}` is its own, but {reader} works for all partitions at once"
        raise PartitionValueError(what, "give the operator the property")
    trial = copy.copy(operator)
    vars(trial).update(given)
    faults = property_faults(trial)
    if faults:
        _, what, remedy = faults[0]
        raise PartitionValueError(what, remedy)
    return {name: vars(trial)[name] for name in given}


def own_attributes(part: Partition) -> dict[str, Any]:
    """The attributes of a partition, checked and converted. Raises PartitionValueError."""
    found = {}
    for name, value in dict(part.attributes).items():
        if name not in _OF_PARTITIONS:
            raise PartitionValueError(
                f"a partition has no attribute {_named(name)} of its own",
                did_you_mean(str(name), _OF_PARTITIONS),
            )
        found[name], rule = ATTRIBUTES[name].check(value)
        if rule is not None:
            raise PartitionValueError(
                f"attribute `{name}` {rule}; got {shown(name, value)}",
                f"give another value ({ATTRIBUTES[name].help})",
            )
    return found


def prototype(operator: Operator, properties: Mapping[str, Any]) -> Operator:
    """The operator as a partition has it, with valid properties of its own."""
    if not properties:
        return operator
    own = copy.copy(operator)
    vars(own).update(properties)
    settle(own)
    return own


def _named(name: object) -> str:
    return f"`{name}`" if isinstance(name, str) else shorten(name)
