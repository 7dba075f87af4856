"""Attributes: their values, what type checkers know of them, and those of Apex."""

from __future__ import annotations

import re
import typing
from numbers import Real

import pytest

from ridgeline import (
    ApplicationAttributes,
    InputPortAttributes,
    OperatorAttributes,
    OutputPortAttributes,
    ProcessingMode,
    RecordingLevel,
    StickyPartitioner,
    UnifierAttributes,
)
from ridgeline.api.attributes import ATTRIBUTES, attributes_of
from ridgeline.api.support import apex_attributes
from ridgeline.api.support.apex_attributes import unknown_attribute
from ridgeline.api.support.attribute import Scope

ALL = ATTRIBUTES
SECONDS = 'must be a number of seconds above 0, or a text such as "500ms", "1s" or "5m"'
YEAR = "must be at least 1 ms and at most 8760 h, which is a year"
PARTITIONER = StickyPartitioner("a")


@pytest.mark.guide("002", "Attributes")
@pytest.mark.guide("004", "Operator Attributes")
def test_each_default_obeys_its_own_rule():
    for attribute in ALL.values():
        assert attribute.check(attribute.default) == (attribute.default, None)
        assert attribute.help


@pytest.mark.parametrize(
    ("name", "value", "checked"),
    [
        ("partitions", "3", 3),
        ("partitions", 3, 3),
        ("unifier_limit", None, None),
        ("partition_parallel", "True", True),
        ("processing_mode", "at_most_once", ProcessingMode.AT_MOST_ONCE),
        ("partitioner", PARTITIONER, PARTITIONER),
        ("heartbeat_interval", 2, 2.0),
        ("heartbeat_interval", "500ms", 0.5),
        ("metrics_recording_level", "trace", RecordingLevel.TRACE),
    ],
)
def test_values_are_taken_as_text_too(name, value, checked):
    assert ALL[name].check(value) == (checked, None)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("partitions", 0, "must be at least 1"),
        ("partitions", 2.0, "must be a whole number"),
        ("partitions", True, "must be a whole number"),
        ("partitions", "two", "must be a whole number"),
        ("partitions", 2**16 + 1, "must be at most 65536"),
        ("application_window_count", 10**30, "must be at most 2147483647"),
        ("stats_max_allowable_windows_lag", 9, "must be at least 10"),
        ("heartbeat_interval", "0.1ms", YEAR),
        ("heartbeat_timeout", "8761h", YEAR),
        ("recovery_attempts", -1, "must be at least 0"),
        ("unifier_limit", 1, "must be at least 2"),
        ("partition_parallel", 1, "must be true or false"),
        ("processing_mode", "SOMETIMES", "must be one of AT_LEAST_ONCE, EXACTLY_ONCE, AT_MOST_ONCE"),
        ("partitioner", "sticky", "must be a `Partitioner`"),
        ("partitioner", StickyPartitioner, "must be a `Partitioner`"),
        ("heartbeat_interval", 0, SECONDS),
        ("heartbeat_interval", -1.5, SECONDS),
        ("heartbeat_interval", float("inf"), SECONDS),
        ("heartbeat_timeout", "soon", SECONDS),
        ("heartbeat_timeout", None, SECONDS),
        ("metrics_recording_level", "DEBUG", "must be one of OFF, INFO, TRACE"),
    ],
)
def test_a_value_that_breaks_the_rule_comes_back_with_it(name, value, rule):
    assert ALL[name].check(value) == (value, rule)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("partition", "did you mean `partitions`?"),
        ("checkpoint_window_count", "leave it out: every window is a checkpoint here"),
    ],
)
def test_an_unknown_attribute_has_a_remedy(name, remedy):
    assert unknown_attribute(name, Scope.OPERATOR) == remedy


SCOPES = {
    "application": (apex_attributes.APPLICATION, {Scope.APPLICATION}),
    "operator": (apex_attributes.OPERATOR, {Scope.OPERATOR}),
    "port": (apex_attributes.PORT, {Scope.INPUT_PORT, Scope.OUTPUT_PORT}),
}


@pytest.mark.guide("002", "Attributes")
@pytest.mark.parametrize("kind", SCOPES)
def test_each_is_here_or_has_something_in_its_place(kind: str) -> None:
    names, scopes = SCOPES[kind]
    assert len(names) == {"application": 49, "operator": 22, "port": 10}[kind]
    for name, instead in names.items():
        here = ATTRIBUTES.get(name.lower())
        if not instead:
            assert here is not None, name
            assert here.scopes & scopes, name
        elif here is None or not here.scopes & scopes:
            remedy = unknown_attribute(name, next(iter(scopes)))
            assert re.match(r"use instead: \S|leave it out: \S", remedy), name


def test_names_of_attributes_in_remedies_exist() -> None:
    for names, _ in SCOPES.values():
        for instead in names.values():
            for named in re.findall(r"^`([a-z_]+)`", instead):
                assert named in ATTRIBUTES


def test_whatever_a_value_raises_it_is_only_faulty() -> None:
    class Hostile:
        def __index__(self) -> int:
            raise RuntimeError

        def __str__(self) -> str:
            raise RuntimeError

        __repr__ = __str__

    for attribute in ATTRIBUTES.values():
        for value in (Hostile(), 10**5000, [[1]], "\0", "9" * 10_000, float("nan"), object):
            assert attribute.check(value)[1] is not None, attribute.name


def test_typed_attributes_are_those_of_the_platform():
    for typed, scope in (
        (ApplicationAttributes, Scope.APPLICATION),
        (OperatorAttributes, Scope.OPERATOR),
        (InputPortAttributes, Scope.INPUT_PORT),
        (OutputPortAttributes, Scope.OUTPUT_PORT),
        (UnifierAttributes, Scope.UNIFIER),
    ):
        known = attributes_of(scope)
        hints = typing.get_type_hints(typed)
        assert list(hints) == list(known)
        for name, attribute in known.items():
            kinds = typing.get_args(hints[name]) or (hints[name],)
            assert (float if attribute.kind is Real else attribute.kind) in kinds
            assert (type(None) in kinds) == (attribute.default is None)
            texts = {text for kind in kinds for text in typing.get_args(kind) if isinstance(text, str)}
            assert not texts or texts == {member.name for member in attribute.kind}
