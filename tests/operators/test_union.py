import copy
import pickle
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import Application, ValidationError
from ridgeline.operators import Union
from ridgeline.plan.validation import validate
from ridgeline.testing import CollectorSink, ListInput


class Number(NamedTuple):
    value: int
    text: str


def united(*inputs: Any, sink: Any = None) -> Application:
    app = Application("union")
    union = app.add_operator("union", Union(len(inputs)))
    for number, one in enumerate(inputs, 1):
        app.add_operator(f"source{number}", one)
        app.add_stream(f"in{number}", one.output, getattr(union, f"input_{number}"))
    end = app.add_operator("sink", sink or CollectorSink())
    app.add_stream("out", union.output, end.input)
    return app


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (pa.schema([("value", pa.int32()), ("text", pa.string())]), "column `value` is int64 and int32"),
        (pa.schema([("value", pa.int64())]), "only one of them has column `text`"),
        (object, "`object` cannot be read as"),
    ],
)
def test_other_columns_are_a_fault(other: Any, text: str) -> None:
    app = united(ListInput(Number, []), ListInput(other, []))
    with pytest.raises(ValidationError, match=f"`union.output`.*`input_1` and `input_2` differ: .*{text}"):
        validate(app)


def test_the_number_of_inputs_is_the_applications() -> None:
    with pytest.raises(ValidationError, match=r"union\.inputs.*cannot be changed from outside"):
        validate(united(ListInput(Number, [])), {"union.inputs": "3"})


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_have_the_ports(copied: Any) -> None:
    made = copied(Union(3))
    assert (made.inputs, made.input_3.name) == (3, "input_3")
