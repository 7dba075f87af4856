"""A sampler chooses the same tuples in each run, by key or by all of a tuple."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ridgeline import Application, OperatorError
from ridgeline.operators import Sampler
from ridgeline.testing import CollectorSink, Faults, ListInput, run_local


class Sold(NamedTuple):
    shop: str
    number: int


SOLD = [Sold(f"shop {number % 40}", number) for number in range(400)]


def sampled(
    sampler: Sampler[Sold], partitions: int = 1, faults: Faults | None = None
) -> tuple[list[Sold], list[Sold]]:
    app = Application("sold")
    source = app.add_operator("source", ListInput(Sold, SOLD))
    added = app.add_operator("sampler", sampler, partitions=partitions)
    some, others = (
        app.add_operator("some", CollectorSink(Sold)),
        app.add_operator("others", CollectorSink(Sold)),
    )
    app.add_stream("sold", source.output, added.data)
    app.add_stream("some", added.output, some.input)
    app.add_stream("others", added.rest, others.input)
    run = run_local(app, faults=faults)
    return sorted(run.collected("some")), sorted(run.collected("others"))


class Nested(NamedTuple):
    tags: list[str]
    by_name: dict[str, float]


def test_tuples_with_nested_columns_are_chosen_too():
    nested = [Nested([f"{number}"], {"x": float(number)}) for number in range(100)]
    app = Application("nested")
    source = app.add_operator("source", ListInput(Nested, nested))
    sampler = app.add_operator("sampler", Sampler(share=0.5, seed=3))
    sink = app.add_operator("sink", CollectorSink(Nested))
    app.add_stream("nested", source.output, sampler.data)
    app.add_stream("some", sampler.output, sink.input)
    found = run_local(app).collected("sink")
    assert found == run_local(app).collected("sink")
    assert 20 < len(found) < 80


def test_a_key_that_is_no_column_is_named():
    with pytest.raises(
        OperatorError, match="samples by the key `shopp`, which is no column; did you mean `shop`"
    ):
        sampled(Sampler(share=0.5, key="shopp"))
