"""Unifiers: where they stand, operators that are their own, cascades; results never depend on partitions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.api import InputPort, Operator, OperatorError, OutputPort, State, Unifier
from ridgeline.plan import PhysicalPlan, build_physical, find_faults, validate
from ridgeline.testing import ABORT, run_local
from support.plan.faulty import are
from support.plan.words import AddByWord, Count, Largest, Words, application

PARTITIONS = st.sampled_from([1, 2, 3, 5])
LIMITS = st.sampled_from([None, 2, 4, (2, 3), (3, 2)])


@pytest.mark.guide("002", "NxM Partitions")
@pytest.mark.guide("002", "Cascading Unifier")
@pytest.mark.guide("004", "Unifiers")
@pytest.mark.guide("004", "Unifier")
@settings(deadline=None, max_examples=20)
@given(
    windows=st.lists(st.lists(st.sampled_from("abcdefg"), max_size=9), min_size=1, max_size=3),
    n=PARTITIONS,
    m=PARTITIONS,
    limit=LIMITS,
    single=st.booleans(),
    fails=st.booleans(),
)
def test_results_never_depend_on_partitions(
    windows: list[list[str]], n: int, m: int, limit: Any, *, single: bool, fails: bool
) -> None:
    mark = [ABORT] if fails else None
    run = run_local(application(windows, n=n, m=m, limit=limit, single=single, mark=mark))
    for number, window in enumerate(windows):
        counts = Counter(window)
        assert sorted(run.collected("counts", number)) == sorted(counts.items())
        best = max(((count, word) for word, count in counts.items()), default=None)
        assert run.collected("best", number) == ([best[::-1]] if best else [])


def titles(plan: PhysicalPlan) -> list[str]:
    return [operator.title for operator in plan.operators]


def entering(plan: PhysicalPlan, title: str) -> list[str]:
    (identity,) = [operator.id for operator in plan.operators if operator.title == title]
    return [plan.operator(stream.source).title for stream in plan.streams if stream.sink == identity]


def test_one_stands_before_each_partition_whose_key_it_shares_else_once_before_the_split() -> None:
    plan = build_physical(validate(application([[]], n=3, m=2)))
    assert [title for title in titles(plan) if title.startswith("words")] == [
        "words[0]",
        "words[1]",
        "words[2]",
        "words.counts#unifier[0]",
        "words.counts#unifier[1]",
        "words.counts#unifier[2]",
    ]
    assert entering(plan, "words.counts#unifier[0]") == ["words[0]", "words[1]", "words[2]"]
    assert entering(plan, "once[0]") == ["words.counts#unifier[1]"]
    assert entering(plan, "once[1]") == ["words.counts#unifier[2]"]
    assert entering(plan, "largest[0]") == entering(plan, "largest[1]") == ["words.counts#unifier[0]"]
    own = next(operator for operator in plan.operators if operator.title == "largest.largest#unifier")
    assert isinstance(own.operator, Largest)
    assert own.operator.least == 1


@pytest.mark.parametrize("end", ["output", "input"])
def test_unifier_single_final_merges_once_for_all_partitions(end: str) -> None:
    app = application([[]], n=3, m=2)
    once, words = app.operators[2].operator, app.operators[1].operator
    app.set_attribute(words.counts if end == "output" else once.counts, unifier_single_final=True)
    plan = build_physical(validate(app))
    assert [title for title in titles(plan) if "words.counts" in title] == ["words.counts#unifier"]
    routes = [stream.route for stream in plan.streams if stream.name == "counted" and stream.route]
    assert len(routes) == 4  # it divides for both sinks


class Running(AddByWord):
    """State that is not kept by key: it must see all tuples."""

    all = State(0)


class WordsWithState(Words):
    counts = OutputPort(Count, unifier=Running)


class WordsWithoutKey(Words):
    class Plain(Unifier):
        counts = InputPort(Count)
        sums = OutputPort(Count)

    counts = OutputPort(Count, unifier=Plain)


@pytest.mark.parametrize("words", [WordsWithState(), WordsWithoutKey()])
def test_a_unifier_without_key_or_with_other_state_stands_once(words: Operator) -> None:
    plan = build_physical(validate(application([[]], words, n=3, m=2)))
    assert [title for title in titles(plan) if "words.counts" in title] == ["words.counts#unifier"]


class Changing(AddByWord):
    """A hostile one: it has a key, and emits another."""

    def end_window(self) -> None:
        for word, count in self.total.items():
            self.sums.emit(Count(f"{word}!", count))


class WordsChanged(Words):
    counts = OutputPort(Count, unifier=Changing)


class Raising(AddByWord):
    def end_window(self) -> None:
        raise ValueError("no more")


class WordsRaised(Words):
    counts = OutputPort(Count, unifier=Raising)


def test_a_unifier_by_key_that_emits_other_keys_is_an_error() -> None:
    with pytest.raises(OperatorError) as caught:
        run_local(application([["a", "b", "c", "d"]], WordsChanged(), n=2, m=3))
    assert caught.value.failure.operator.startswith("words.counts#unifier")
    assert "a unifier by key emitted Count(word=" in caught.value.failure.error


def test_a_unifier_that_fails_is_named() -> None:
    with pytest.raises(OperatorError, match="no more") as caught:
        run_local(application([["a"]], WordsRaised(), n=2))
    assert caught.value.failure.operator.startswith("words.counts#unifier")


class TwoPorts(Operator):
    words = InputPort(Count)
    others = InputPort(Count, optional=True)
    counts = OutputPort(Count, unifier="self")

    @words.process
    def one(self, count: Count) -> None: ...

    @others.process
    def two(self, count: Count) -> None: ...


def test_an_operator_with_two_ports_cannot_be_its_own_unifier() -> None:
    faults = [str(fault) for fault in find_faults(application([[]], TwoPorts(), n=2))]
    assert are(faults, ["`words.counts`: its unifier `TwoPorts` has 2 ... output ports; give it one of each"])


@pytest.mark.parametrize(
    ("count", "limit", "sizes"),
    [
        (16, (4, 2), [4, 4, 4, 4, 2, 2, 2]),
        (16, (2, 4), [2] * 8 + [4, 4, 2]),
        (5, (4, 2), [4, 2]),
        (2, (4, 2), [2]),
    ],
)
def test_fan_ins_may_differ_by_level(count: int, limit: tuple[int, ...], sizes: list[int]) -> None:
    plan = build_physical(validate(application([[]], n=count, limit=limit, m=1)))
    unifiers = [operator.id for operator in plan.operators if operator.unifier and operator.name == "words"]
    found = [sum(stream.sink == unifier for stream in plan.streams) for unifier in unifiers]
    assert sorted(found[:-1], reverse=True) == sorted([*sizes[:-1], sizes[-1]], reverse=True)
