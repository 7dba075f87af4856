"""Attributes: their values and rules."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ridgeline import (
    ProcessingMode,
    RecordingLevel,
    StickyPartitioner,
)
from ridgeline.api.attributes import ATTRIBUTES

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


def test_python_without_docstrings_has_attributes_too():
    program = "from ridgeline.api.attributes import ATTRIBUTES; print(len(ATTRIBUTES))"
    shown = subprocess.check_output([sys.executable, "-OO", "-c", program], text=True)
    assert int(shown) == len(ALL)


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
