"""Made-up records: the same in all partitions and attempts, of the right shape, and as many as are due."""

from __future__ import annotations

from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from ridgeline import Application
from ridgeline.api.errors import ValidationError
from ridgeline.operators import EventGenerator, RandomEventGenerator
from ridgeline.operators.generators import choice, integers, normal, sequence, times, uniform
from ridgeline.plan.spec.form import Form
from ridgeline.plan.spec.texts import read_document
from ridgeline.plan.specification import read_specification
from ridgeline.testing import CollectorSink, run_local
from support.depth import deeper
from support.plan.specifications import write_specification

COLUMNS: dict[str, Any] = {
    "id": sequence(1),
    "dice": integers(1, 6),
    "share": uniform(-1, 1),
    "height": normal(170, 10),
    "user": choice(["ann", "bob", "cyd"], [8, 1, 1]),
    "time": times("2026-01-01", every="1s", late_by="5s"),
}


def generated(
    windows: int | None = None, partitions: int = 1, width: str = "1s", run: Any = None, **options: Any
) -> list[list[tuple[Any, ...]]]:
    app = Application("generated", window=width)
    given = {"columns": COLUMNS, **options}
    app.read("events", EventGenerator(**given), partitions=partitions).write("sink", CollectorSink())
    found = run_local(app, windows=windows, **(run or {}))
    return [sorted(tuple(row.values()) for row in found.collected("sink", one)) for one in found.window_ids]


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3, pytest.param(5, marks=deeper)])
def test_records_are_the_same_for_any_number_of_partitions(partitions: int) -> None:
    expected = generated(per_window=37, count=100, seed=3)
    assert [len(window) for window in expected] == [37, 37, 26]
    assert [row[0] for window in expected for row in window] == list(range(1, 101))
    assert generated(per_window=37, count=100, seed=3, partitions=partitions) == expected


def test_columns_are_data_that_a_specification_has() -> None:
    app = Application("generated")
    app.read("events", EventGenerator(COLUMNS, count=3)).write("sink", CollectorSink())
    text = write_specification(app, Form.YAML)
    again = read_specification(read_document(text, Form.YAML), "generated")
    assert write_specification(again, Form.YAML) == text
    assert run_local(again).collected("sink") == run_local(app).collected("sink")
    for given, wrong, fault in [
        ("first: 1", "frist: 1", r"events\.columns.*`sequence` does not take {'frist': 1}"),
        ("function: normal", "function: norml", r"events\.columns.*`norml`; did you mean `normal`"),
    ]:
        with pytest.raises(ValidationError, match=fault):
            run_local(read_specification(read_document(text.replace(given, wrong), Form.YAML), "generated"))


def counts(load: Any, windows: int, width: str = "1s", partitions: int = 2) -> list[int]:
    return [
        len(one) for one in generated(windows, partitions, width, columns={"n": sequence()}, per_second=load)
    ]


def test_as_many_records_as_are_due() -> None:
    assert counts(10, 4) == [10, 10, 10, 10]
    assert counts(2.5, 4) == [2, 3, 2, 3]


def generate(partitions=1, windows=None, **properties):
    app = Application("random")
    generator = RandomEventGenerator(**properties)
    app.add_operator("generator", generator, partitions=partitions)
    app.stream(generator.integer_data).write("sink", CollectorSink())
    run = run_local(app, windows=windows)
    return [[row["value"] for row in run.collected("sink", window)] for window in run.window_ids]


def splitmix64(seed, number):
    """The n-th value of SplitMix64, in plain integers."""
    mask = 2**64 - 1
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


@pytest.mark.guide("004", "Event Generators")
@pytest.mark.parametrize("seed", [0, 1, -5, 2**63])
def test_numbers_are_those_of_splitmix64(seed):
    assert splitmix64(1234567, 0) == 6457827717110365317  # as rosettacode.org has it
    expected = [splitmix64(seed, number) % 201 - 100 for number in range(50)]
    assert integers(-100, 100).values(seed, 0, 50).to_pylist() == expected
    assert integers(-100, 100).values(seed, 20, 30).to_pylist() == expected[20:30]


@pytest.mark.parametrize("partitions", [1, 2, 3, 7])
def test_the_sequence_is_the_same_for_any_number_of_partitions(partitions):
    windows = generate(partitions, minimum=0, maximum=30_000, tuples_per_window=100, count=1_234, seed=7)
    assert list(map(len, windows)) == [100] * 12 + [34]
    assert list(chain.from_iterable(windows)) == integers(0, 30_000).values(7, 0, 1_234).to_pylist()


def test_the_count_and_how_much_of_it_is_left():
    assert list(map(len, generate(2, windows=3, tuples_per_window=10))) == [10, 10, 10]
    assert generate(2, count=0) == [[]]
    one, endless = RandomEventGenerator(count=100), RandomEventGenerator()
    one.context = endless.context = SimpleNamespace(partitions=2)
    one.position = 30
    assert one.progress() == (15.0, 35.0), "its share: what partitions say is added up"
    assert endless.progress() == (0.0, None)
