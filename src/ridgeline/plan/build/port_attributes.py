"""Defaults of attributes of operators, ports and unifiers, which they inherit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.api.application import Kind, Values
from ridgeline.api.attributes import attributes_of
from ridgeline.api.operator import OperatorType, operator_type
from ridgeline.api.support.attribute import Scope
from ridgeline.plan.logical import LogicalOperator

Section = tuple[Values, Values]
"""Attributes, and those that they have where nothing is given: what is missing there is the default."""
_TAKEN_OVER = ("timeout_window_count", "recovery_attempts")
"""Attributes that unifiers have of their own, with the value of their operator as the default."""
_SHARED = ("processing_mode", "on_error")
"""Attributes that unifiers always have from their operator."""


def inherited_by_operator(application: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes that an operator inherits from its application."""
    return {name: application[name] for name in attributes_of(Scope.OPERATOR) if name in application}


def inherited_by_port(declared: OperatorType, port: str, operator: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes that a port inherits from its operator and its declaration."""
    scope = Scope.INPUT_PORT if port in declared.inputs else Scope.OUTPUT_PORT
    values = {name: operator[name] for name in attributes_of(scope) if name in operator}
    if port in declared.inputs and declared.inputs[port].parallel:
        values["partition_parallel"] = True
    return values


def inherited_by_unifier(operator: Mapping[str, Any], application: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes that a unifier inherits: some from its operator, others from the application.

    Its application window is what its operator emits results for: a slide, if that slides.
    """
    needs = {name: application[name] for name in attributes_of(Scope.UNIFIER) if name in application}
    count = operator["slide_by_window_count"] or operator["application_window_count"]
    return needs | {name: operator[name] for name in _TAKEN_OVER} | {"application_window_count": count}


def attributes_of_unifier(operator: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """All attributes of a physical unifier: its own, those of its operator that it shares, else defaults."""
    defaults = {name: attribute.default for name, attribute in attributes_of(Scope.OPERATOR).items()}
    return defaults | {name: operator[name] for name in _SHARED} | dict(own)


def sections(operator: LogicalOperator, application: Values) -> dict[tuple[Kind, str], Section]:
    """The attributes of an operator, of each of its ports and of unifiers, with what they follow from.

    `application`: the attributes of the application.
    """
    declared = operator_type(type(operator.operator))
    found: dict[tuple[Kind, str], Section] = {
        ("attribute", ""): (operator.attributes, inherited_by_operator(application))
    }
    for port, values in operator.ports.items():
        found["port", port] = values, inherited_by_port(declared, port, operator.attributes)
    for port, values in operator.unifiers.items():
        found["unifier", port] = values, inherited_by_unifier(operator.attributes, application)
    return found
