"""What type checkers know of attributes is what there is."""

from __future__ import annotations

import typing
from numbers import Real

from ridgeline import (
    ApplicationAttributes,
    InputPortAttributes,
    OperatorAttributes,
    OutputPortAttributes,
    UnifierAttributes,
)
from ridgeline.api.attributes import attributes_of
from ridgeline.api.support.attribute import Scope


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
