import doctest
import math

import pytest
from benchmarks.catalog import GROUPS, MODULES, Catalog, choose, load
from benchmarks.frame import Benchmark, Goal
from benchmarks.summary import Ran, figures_of, judge, judge_all

from benchmarks import soak, summary


def ran(contestant, number, *samples, figure="seconds"):
    return Ran(contestant, number, {figure: samples})


def test_ratios_are_taken_round_by_round_and_their_median_is_judged():
    rounds = [
        ran("ours", 0, 1.0),
        ran("x", 0, 2.0),
        ran("ours", 1, 30.0),
        ran("x", 1, 60.0),
        ran("ours", 2, 1.0),
        ran("x", 2, 10.0),
    ]
    judged = judge(Goal(figure="seconds", against="x", at_most=0.5), rounds)
    assert (judged.verdict, judged.compared.median, judged.compared.high) == ("met", 0.5, 0.5)
    assert judge(Goal(figure="seconds", against="x", at_most=0.49), rounds).verdict == "missed"


def test_a_rate_must_be_at_least_so_many_times_the_other():
    rounds = [ran("ours", 0, 8.0, 9.0, 10.0, figure="tuples/s"), ran("x", 0, 1.0, figure="tuples/s")]
    assert judge(Goal(figure="tuples/s", against="x", at_least=9), rounds).verdict == "met"
    assert judge(Goal(figure="tuples/s", against="x", at_least=9.1), rounds).verdict == "missed"


def test_a_round_that_one_of_both_did_not_finish_does_not_count():
    rounds = [ran("ours", 0, 1.0), Ran("x", 0, error="out of luck"), ran("ours", 1, 1.0), ran("x", 1, 4.0)]
    judged = judge(Goal(figure="seconds", against="x", at_most=0.5), rounds)
    assert (judged.verdict, judged.compared.median) == ("met", 0.25)
    assert judge(Goal(figure="seconds", against="x", at_most=0.5), rounds[:2]).reason == "x: out of luck"
    assert judge(Goal(figure="bytes", against="x", at_most=0.5), rounds).reason == "ours: gives no `bytes`"


def test_a_figure_may_be_compared_with_another_one_of_the_same_contestant():
    rounds = [Ran("ours", 0, {"on: tuples/s": [9.0], "off: tuples/s": [10.0]})]
    goal = Goal(figure="on: tuples/s", against="ours", against_figure="off: tuples/s", at_least=0.9)
    assert judge(goal, rounds).verdict == "met"


def test_a_figures_median_is_that_of_the_rounds_and_its_spread_that_of_all_samples():
    found = figures_of([ran("ours", 0, 1.0, 1.0, 1.0, 1.0), ran("ours", 1, 3.0)], "ours")["seconds"]
    assert (found.median, found.low) == (2.0, 1.0)
    assert found.high > 2.0


def test_nothing_to_divide_by_is_infinitely_much():
    assert Goal(figure="tuples/s", against="x", at_least=2).compare(1.0, 0.0) == math.inf


def test_faulty_declarations_say_what_is_wrong():
    with pytest.raises(ValueError, match="a goal has a limit; got at_most=None, at_least=None"):
        Goal(figure="seconds", against="x")
    with pytest.raises(ValueError, match="a goal names a contestant; got 'y'; there are ours"):
        Benchmark(
            name="b",
            title="",
            contestants={"ours": lambda _: {}},
            goals=[Goal(figure="s", against="y", at_most=1)],
        )


def test_all_benchmarks_fit_into_half_an_hour():
    catalog = load()
    assert not {module: fault for module, fault in catalog.faults.items() if "No module named" not in fault}
    assert {"window", "age", "start", "restart", "held-keys"} <= catalog.benchmarks.keys()
    assert sum(benchmark.budget_seconds for benchmark in choose(catalog, [])) <= 30 * 60
    assert len(MODULES) == len(set(MODULES))


def test_a_name_that_does_not_exist_is_answered_with_a_near_one():
    catalog = Catalog({"window": Benchmark(name="window", title="", contestants={}, goals=[])})
    with pytest.raises(LookupError, match="no such benchmark; got `windows`; did you mean `window`"):
        choose(catalog, ["windows"])


def test_a_name_can_stand_for_several_benchmarks():
    catalog = load()
    for name, members in GROUPS.items():
        assert [one.name for one in choose(catalog, [name, "window"])] == [*members, "window"]
        assert not any(one.part_of_all for one in choose(catalog, [name]))


def test_what_is_shown_has_its_unit():
    for module in (summary, soak):
        assert doctest.testmod(module).failed == 0
    assert judge_all(Benchmark(name="b", title="", contestants={}, goals=[]), []) == []
