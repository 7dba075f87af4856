"""Advice: what helps comes first, with its command; what cannot be said is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ridgeline.measure.deciding.capacity import bottleneck
from ridgeline.measure.deciding.key_load import HeavyKey, KeyLoad
from ridgeline.policies.advice import advise, unknown
from support.policies.model_application import Model, Step


def advice(*steps: Step, seconds: int = 30, **model):
    return advise(Model(list(steps), **model).figures(seconds))


def test_what_is_too_little_to_say_is_not_said():
    figures = Model([Step("parse", cost=0.01)], load=lambda _: 1.0).figures(1)
    figures.windows = 3
    assert advise(figures) == []


def test_the_operator_on_the_critical_path_is_to_be_divided_as_far_as_it_helps():
    [found, *_] = advice(Step("source", 1e-5, is_input=True), Step("parse", 0.002), load=lambda _: 100.0)
    assert found.operator == "parse"
    assert found.figure == "latency_p50_seconds"
    assert found.command.startswith("repartition APP parse ")
    assert found.after < found.before
    assert "compute, which divides" in found.why


def test_no_more_partitions_than_slots_are_advised():
    steps = Step("source", 1e-5, is_input=True), Step("parse", 0.002)
    assert advice(*steps, load=lambda _: 100.0, slots=2)[0].partitions == 2
    assert all("partitions" not in one.what for one in advice(*steps, load=lambda _: 100.0, slots=1))


def test_what_does_not_divide_is_not_to_be_divided():
    assert advice(Step("move", 1e-9, fixed=0.2), load=lambda _: 10.0) == []
    assert advice(Step("hot", 0.002, partitions=2, hot=0.99), load=lambda _: 200.0)[0].figure == "imbalance"


def test_what_is_full_first_limits_the_throughput():
    found = advice(Step("parse", 0.002), load=lambda _: 450.0)
    [more] = [one for one in found if one.figure == "tuples_per_second"]
    assert more.operator == "parse"
    assert (more.before, more.after) == pytest.approx((500, 1000))
    assert "it saturates first" in more.why


def test_what_has_room_could_give_back():
    found = advice(Step("parse", 0.002), Step("idle", 1e-6, partitions=4, fixed=0.0), load=lambda _: 100.0)
    [back] = [one for one in found if one.operator == "idle"]
    assert back.command == "repartition APP idle 3"
    assert "give a partition back" in back.what


@pytest.mark.parametrize("load", [0.0, 1e-6])
def test_an_application_with_nothing_to_do_gets_no_advice_to_divide(load):
    found = advice(Step("parse", 0.002, partitions=2), load=lambda _: load)
    assert all(one.figure == "utilization" for one in found)


def test_it_comes_true_on_the_model():
    """Followed until nothing is advised, the latency falls as was said, and no advice repeats itself."""
    model = Model([Step("parse", 0.002), Step("join", 0.001)], load=lambda _: 150.0)
    seen = []
    for second in range(20):
        found = [one for one in advise(model.figures(second)) if one.figure == "latency_p50_seconds"]
        if not found:
            break
        best = found[0]
        assert best.command not in seen
        seen.append(best.command)
        _, _, name, number = best.command.split()
        next(step for step in model.steps if step.name == name).partitions = int(number)
        assert model.figures(second).window_latency.p50_seconds <= best.before
    assert seen
    assert second < 19


def test_throughput_is_promised_only_up_to_where_the_next_operator_is_full():
    steps = [Step("source", 0.00015, is_input=True), Step("parse", 0.0009), Step("store", 0.0006)]
    model = Model(steps, load=lambda _: 1000.0)
    [more] = [one for one in advise(model.figures(1)) if one.figure == "tuples_per_second"]
    assert (more.operator, more.command) == ("parse", "repartition APP parse 2")
    before = model.capacity()
    steps[1].partitions = 2
    assert model.capacity() / before == pytest.approx(more.after / more.before, rel=0.01) == 1.5
    assert "then `store` does" in more.why


def test_with_back_pressure_of_two_that_are_full_no_throughput_is_promised():
    steps = [Step("source", 0.00095, is_input=True), Step("parse", 0.001)]
    found = advise(Model(steps, load=lambda _: 5000.0, backlog=100_000.0).figures(1))
    assert [one for one in found if one.figure == "tuples_per_second"] == []


def test_one_input_that_is_full_is_said_to_be_so():
    figures = Model([Step("source", 0.001, is_input=True)], load=lambda _: 900.0).figures(1)
    assert advise(figures) == []
    assert any("`source` saturates first" in line for line in unknown(figures))


def test_it_is_said_why_nothing_can_be_said():
    figures = Model([Step("source", 0.001, is_input=True)], load=lambda _: 1.0).figures(1)
    figures.operators["source"].tuples_in_per_second = figures.operators["source"].tuples_out_per_second = 0.0
    assert "no tuple came" in unknown(figures)[0]
    figures.windows = 3
    assert "3 windows are known" in unknown(figures)[0]
    figures.changing = True
    assert "under way" in unknown(figures)[0]
    assert advise(figures) == []


@pytest.mark.parametrize(
    ("slots", "commands"),
    [
        (1, ["run FILE --master local[3]"]),
        (2, ["repartition APP parse 2", "run FILE --master local[3]"]),
        (4, ["repartition APP parse 3"]),
    ],
)
def test_of_an_operator_that_is_full_few_windows_say_what_keeps_up(slots, commands):
    steps = [Step("source", 1e-5, is_input=True), Step("parse", 0.002)]
    figures = Model(steps, load=lambda _: 1000.0, slots=slots, backlog=9_000.0).figures(1)
    figures.windows = 4
    found = advise(figures)
    assert [one.command for one in found] == commands
    assert all("500 of 1,000 tuples/s" in one.why for one in found)
    assert all(one.before == 500 and one.after >= 1000 for one in found)
    figures.seconds = 5.0
    assert advise(figures) == []


def test_of_a_source_that_stood_still_as_much_arrives_as_before():
    steps = [Step("source", 1e-5, is_input=True), Step("parse", 0.002)]
    figures = Model(steps, load=lambda _: 1000.0, backlog=9_000.0).figures(1)
    figures.sources = (replace(figures.sources[0], unit="records", taken_per_second=5.0),)
    found = bottleneck(figures)
    assert (found["wantedPerSecond"], found["enough"]) == (1000, 3)


def test_no_division_is_advised_for_one_key_that_has_most_of_the_tuples():
    steps = [Step("source", 1e-5, is_input=True), Step("count", 0.002, partitions=2, hot=0.9)]
    figures = Model(steps, load=lambda _: 1000.0, backlog=9_000.0).figures(1)
    heavy = (HeavyKey("ann", 1, 0.9, 0.01),)
    keys = KeyLoad(1, np.ones(2) / 2, heavy, 100, 9.0, 2, np.zeros(2, int), {}, alone="it has state by key")
    figures.operators["count"].keys = keys
    [found] = advise(figures)
    assert "the key `ann` has 90% of its tuples" in found.why
    assert "SkewPolicy" not in found.what
