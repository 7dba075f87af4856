"""Shares of a stream: deterministic by key, as large as they should be, with any number of partitions."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application, RidgelineError, ValidationError
from ridgeline.operators import SplitByShare
from ridgeline.plan.spec.writer import operator_spec
from ridgeline.plan.validation import validate
from ridgeline.testing import CollectorSink, ListInput, run_local


class Visit(NamedTuple):
    user: str | None
    page: int


VISITS = [Visit(f"user{number % 4000}" if number % 4000 else None, number) for number in range(8000)]


def parts(shares: dict[str, float], key: Any = "user", partitions: int = 1, **options: Any) -> Any:
    seed = options.pop("seed", 0)
    app = Application("shares", window="1s")
    visits = app.read("visits", ListInput(Visit, VISITS))
    found = visits.split_by_share("ab", shares, key, seed=seed, partitions=partitions)
    for name in shares:
        found[name].write(f"{name}_sink", CollectorSink(Visit))
    run = run_local(app, **options)
    return {name: run.collected(f"{name}_sink") for name in shares}


def users(rows: Any) -> set[str | None]:
    return {row.user for row in rows}


@settings(deadline=None, max_examples=5)
@given(st.integers(0, 2**40), st.sampled_from([{"a": 0.9, "b": 0.1}, {"x": 0.2, "y": 0.5, "z": 0.3}]))
def test_each_key_goes_one_way_and_shares_are_kept(seed: int, shares: dict[str, float]) -> None:
    found = parts(shares, seed=seed)
    assert Counter(row for rows in found.values() for row in rows) == Counter(VISITS)
    of = {name: users(rows) for name, rows in found.items()}
    for name, share in shares.items():
        # of 4000 keys the standard deviation is at most 32
        assert abs(len(of[name]) - 4000 * share) < 160
        assert not of[name] & {user for other in shares if other != name for user in of[other]}
        assert found[name] == [row for row in VISITS if row.user in of[name]]


def test_it_is_data() -> None:
    app = Application("shares")
    visits = app.read("visits", ListInput(Visit, VISITS))
    visits.split_by_share("ab", {"a": 0.9, "b": 0.1}, ("user",)).a.write("sink")
    made = validate(app, {"ab.shares": {"a": 0.4, "b": 0.6}}).operator("ab").operator
    assert operator_spec("ab", made, {})["properties"]["shares"] == {"a": 0.4, "b": 0.6}


@pytest.mark.parametrize(
    ("operator", "what"),
    [
        (lambda: SplitByShare({"a": 0.9, "b": 0.2}, "user"), "1 in sum"),
        (lambda: SplitByShare({"a": 1.5, "b": -0.5}, "user"), "1 in sum"),
        (lambda: SplitByShare({"a": 0.5, "divide": 0.5}, "user"), "must be a name"),
        (lambda: SplitByShare({"a": 0.9, "b": 0.1}, "usr"), "did you mean `user`"),
    ],
)
def test_what_does_not_fit_is_a_fault(operator: Any, what: str) -> None:
    app = Application("shares")
    made = operator()
    app.read("visits", ListInput(Visit, [])).into(app.add_operator("ab", made).input)
    app.stream(made.a).write("sink")
    with pytest.raises(ValidationError, match=what):
        validate(app)


def test_a_step_without_shares_says_so() -> None:
    visits = Application("shares").read("visits", ListInput(Visit, []))
    with pytest.raises(RidgelineError, match="step `ab` has no share"):
        visits.split_by_share("ab", {"two words": 1.0})
