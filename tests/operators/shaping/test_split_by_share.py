"""Shares of a stream: deterministic by key, as large as they should be, with any number of partitions."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ridgeline import Application, RidgelineError
from ridgeline.plan.spec.writer import operator_spec
from ridgeline.plan.validation import validate
from ridgeline.testing import ListInput


class Visit(NamedTuple):
    user: str | None
    page: int


VISITS = [Visit(f"user{number % 4000}" if number % 4000 else None, number) for number in range(8000)]


def test_it_is_data() -> None:
    app = Application("shares")
    visits = app.read("visits", ListInput(Visit, VISITS))
    visits.split_by_share("ab", {"a": 0.9, "b": 0.1}, ("user",)).a.write("sink")
    made = validate(app, {"ab.shares": {"a": 0.4, "b": 0.6}}).operator("ab").operator
    assert operator_spec("ab", made, {})["properties"]["shares"] == {"a": 0.4, "b": 0.6}


def test_a_step_without_shares_says_so() -> None:
    visits = Application("shares").read("visits", ListInput(Visit, []))
    with pytest.raises(RidgelineError, match="step `ab` has no share"):
        visits.split_by_share("ab", {"two words": 1.0})
