"""What type checkers know of attributes is what there is."""

from __future__ import annotations

import typing

from ridgeline import ApplicationAttributes, OperatorAttributes
from ridgeline.api.attributes import APPLICATION_ATTRIBUTES, OPERATOR_ATTRIBUTES


def test_typed_attributes_are_those_of_the_platform():
    for typed, known in (
        (OperatorAttributes, OPERATOR_ATTRIBUTES),
        (ApplicationAttributes, APPLICATION_ATTRIBUTES),
    ):
        hints = typing.get_type_hints(typed)
        assert list(hints) == list(known)
        for name, attribute in known.items():
            kinds = typing.get_args(hints[name]) or (hints[name],)
            assert attribute.kind in kinds
            assert (type(None) in kinds) == (attribute.default is None)
            texts = {text for kind in kinds for text in typing.get_args(kind)}
            assert not texts or texts == {member.name for member in attribute.kind}
