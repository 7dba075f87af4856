"""Each attribute of Apex is here, or a fault says what to use instead; none is accepted and ignored."""

from __future__ import annotations

import re

import pytest

from ridgeline.api.attributes import ATTRIBUTES
from ridgeline.api.support import apex_attributes
from ridgeline.api.support.apex_attributes import unknown_attribute
from ridgeline.api.support.attribute import Scope

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
