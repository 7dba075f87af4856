"""A class that has changed is made anew wherever its values are, and what hashed them finds them again."""

import pickle
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from ridgeline.api.support.pickling import Reader, class_name
from ridgeline.engine.state.records import Maker, record_class
from ridgeline.plan.change.state_schemas import Former
from ridgeline.plan.change.state_shapes import class_shape


class Part(NamedTuple):
    a: int


class Now(NamedTuple):
    c: int = 5
    a: int = 0


@dataclass(frozen=True, slots=True)
class Holds:
    part: Any


HELD = [
    lambda part: {Holds(part(1)): part(2)},
    lambda part: frozenset({Holds(part(3)), (part(4),)}),
    lambda part: deque([Counter([part(5), part(5)])]),
]


@pytest.mark.parametrize("held", HELD)
def test_values_of_a_class_are_found_wherever_they_are(held: Any) -> None:
    name, shape = class_name(Part), class_shape(Part)
    read = Reader({name: record_class(name, shape)}).loads(pickle.dumps(held(Part)))
    made = Maker({name: Former(shape, Now, is_opaque=False)}, lambda batch: batch).make(read)
    assert made == held(lambda a: Now(a=a))


WITHIN = [
    (deque[Part], deque[Now], deque([Part(1)])),
    (Sequence[Part], Sequence[Now], (Part(1),)),
    (Mapping[str, Part], Mapping[str, Now], OrderedDict(a=Part(1))),
    (Counter[str], Counter[int], Counter("a")),
]


@pytest.mark.parametrize(("held", "other", "value"), WITHIN)
def test_what_is_in_containers_of_all_classes_is_of_the_declared_type(
    held: Any, other: Any, value: Any
) -> None:
    maker = Maker({}, lambda batch: batch)
    assert maker.make(value, held) is value
    with pytest.raises(ValueError, match="declare the type that it has"):
        maker.make(value, other)
    assert maker.make(deque([1, True]), deque[float]) == deque([1.0, 1.0])
