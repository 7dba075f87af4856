"""Let output operators write nothing: runs that are compared leave no trace outside."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, cast

from ridgeline.api.operator import Operator, operator_type
from ridgeline.operators.queue_output import QueueOutput
from ridgeline.plan.execution import Plan
from ridgeline.testing.collector import CollectorSink

_LIFE = (
    "setup",
    "activate",
    "begin_window",
    "end_window",
    "committed",
    "deactivate",
    "teardown",
    "publisher",
)


def silence(plan: Plan) -> Plan:
    """Let the output operators of a plan take their tuples and do nothing; returns the plan.

    Those are the operators with a publisher and without output ports. Collecting sinks
    stay, and queues between regions.
    """
    operators = [one.operator for one in plan.logical.operators]
    operators += [one.operator for one in plan.physical.operators]
    staying = (CollectorSink, QueueOutput) if plan.logical.region else CollectorSink
    for operator in operators:
        kind = type(operator)
        if (
            kind.publisher is not Operator.publisher
            and not operator_type(kind).outputs
            and not isinstance(operator, staying)
            and not issubclass(kind, Muted)
        ):
            operator.__class__ = _silenced(cast("Hashable", kind))
    return plan


class Muted:
    """Marks what `silence` has muted."""


@cache
def _silenced(kind: Any) -> type[Operator]:
    """A class with the ports, properties and state of another, whose callbacks do nothing."""
    names = {name for port in operator_type(kind).inputs.values() for name in port.methods}
    body: dict[str, Any] = dict.fromkeys(names, _pass)
    body |= {name: getattr(Operator, name) for name in _LIFE}
    body |= {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__reduce__": _reduced}
    return type(kind.__name__, (Muted, kind), body)


def _pass(_self: Operator, _tuples: object) -> None:
    """Take what comes."""


def _reduced(self: Any) -> tuple[Any, ...]:
    kind = next(base for base in type(self).__mro__[1:] if base is not Muted)
    return _made, (kind,), self.__getstate__()


def _made(kind: type[Operator]) -> Operator:
    """A muted operator without properties, to be filled."""
    made: Operator = object.__new__(_silenced(cast("Hashable", kind)))
    return made
