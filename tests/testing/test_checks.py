"""The kit finds what is planted: state that is lost, results that depend on order, chance or partitions."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort, State, ValidationError
from ridgeline.operators import FileOutput
from ridgeline.testing import (
    END_WINDOW,
    CollectorSink,
    ListInput,
    assert_independent_of_order,
    assert_independent_of_partitions,
    assert_recovers,
    compare_runs,
)
from support.rows import in_a_row


class Sold(NamedTuple):
    shop: str
    amount: float


class Sums(Operator):
    """As it should be."""

    sold = InputPort(Sold, key="shop")
    sums = OutputPort(Sold)

    totals = KeyedState(float, default=0.0)

    @sold.process
    def add(self, sold: Sold) -> None:
        self.totals[sold.shop] += sold.amount

    def end_window(self) -> None:
        for shop, total in self.totals.changed():
            self.sums.emit(Sold(shop, total))


OUTSIDE: dict[str, float] = {}


class Leaking(Sums):
    """Keeps its totals where no checkpoint has them, and no failure takes them back."""

    @Sums.sold.process
    def add(self, sold: Sold) -> None:
        OUTSIDE[self.context.run_id, sold.shop] = OUTSIDE.get((self.context.run_id, sold.shop), 0.0) + 1.0
        self.totals[sold.shop] = OUTSIDE[self.context.run_id, sold.shop]


class LastWins(Sums):
    @Sums.sold.process
    def add(self, sold: Sold) -> None:
        self.totals[sold.shop] = sold.amount


CHANCE = itertools.count()


class ByChance(Sums):
    @Sums.sold.process
    def add(self, sold: Sold) -> None:
        self.totals[sold.shop] += next(CHANCE)


class OfAll(Operator):
    """Its partitions do not know of each other."""

    sold = InputPort(Sold)
    sums = OutputPort(Sold)

    total = State(0.0)

    @sold.process
    def add(self, sold: Sold) -> None:
        self.total += sold.amount

    def end_window(self) -> None:
        self.sums.emit(Sold("all", self.total))


def application(operator: Any, partitions: int = 1) -> Application:
    app = Application("sales", window="1s")
    items = [
        item
        for window in range(4)
        for item in [("a", 1.0), ("b", 2.0), ("a", 3.5), ("c", window / 3), END_WINDOW]
    ]
    source = app.add_operator("source", ListInput(Sold, items[:-1]))
    sums = app.add_operator("sums", operator, partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(Sold))
    app.add_stream("sold", source.output, sums.sold)
    app.add_stream("sums", sums.sums, sink.input)
    return app


def test_lost_state_is_found_with_the_fewest_faults():
    with pytest.raises(AssertionError) as found:
        assert_recovers(application(Leaking()), rate=0.3)
    text = str(found.value)
    assert "window" in text
    assert "`sums.sums`" in text
    assert "what `sums` reads is the same: look there" in text
    after = text.split("after:\n")[1]
    assert len(after.split("again:")[0].strip().splitlines()) == 1
    assert "run_local(app, interleave=" in after
    assert "faults=Faults(only=['" in after


def test_chance_is_found_without_any_fault():
    with pytest.raises(AssertionError, match="when it runs again, without any fault") as found:
        assert_recovers(application(ByChance()))
    assert "`sums.sums`" in str(found.value)


def test_dependence_on_order_is_found():
    with pytest.raises(AssertionError, match="its input comes in another order") as found:
        assert_independent_of_order(application(LastWins()))
    assert "shop='a': amount" in str(found.value)
    assert "look there" not in str(found.value).split("sums")[0]


def test_dependence_on_partitions_is_found():
    with pytest.raises(AssertionError, match=r"`sums` gives other results with 2 partitions \(B\)"):
        assert_independent_of_partitions(application(OfAll()), "sums", (1, 2))


def test_a_run_that_fails_under_faults_says_so():
    class Once(Sums):
        def begin_window(self, window_id: int) -> None:
            if self.context.attempt:
                raise ValueError("not again")

    with pytest.raises(AssertionError, match=r"the run failed: .*not again"):
        assert_recovers(application(Once()), rate=0.5, kinds=["kill"])


def test_versions_are_compared_on_the_same_input_and_publish_nothing(tmp_path):
    def version(operator: Sums, amount: float) -> Application:
        return in_a_row(
            Application("sales"),
            source=ListInput(Sold, [("a", amount), END_WINDOW, ("b", 1.0)]),
            sums=operator,
            output=FileOutput(str(tmp_path / "out")),
        )

    result = compare_runs(version(Sums(), 1.0), version(Sums(), 2.0))
    assert [(one.window, one.operator, one.cause) for one in result.differences] == [
        (0, "source", True),
        (0, "sums", False),
    ]
    assert "input `source` itself differs" in str(result)
    assert compare_runs(version(Sums(), 1.0), version(Sums(), 2.0), same_input=True).equal
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_errors_do_not_tell_of_taps():
    with pytest.raises(ValidationError) as found:
        assert_independent_of_partitions(application(Sums()), "sum")
    assert "`sums`" in str(found.value)
    assert "tap" not in str(found.value)
