"""Two runs side by side: each figure against one that is computed from the events by hand."""

import random

import pytest

from support.cli.windows import window
from support.service.history import PLAN, events, history, place, write_log
from support.service.watched import events_of, payments


def ended_with(latencies, **what):
    """A run whose windows take so many seconds each."""
    found = events(0, **what)
    begin, end = found[0], found[-1]
    windows = [
        event
        for number, seconds in enumerate(latencies)
        for event in window(PLAN, number, at=1_000.0 + 10 * number, seconds=seconds)
    ]
    return [begin, *windows, type(end)(1_000.0 + 10 * len(latencies), "finished")]


def rank(values, share):
    """The least value that at least this share of the values does not exceed, by counting."""
    return min(one for one in values if sum(other <= one for other in values) >= share * len(values) - 1e-9)


def test_the_figures_of_both_and_their_differences(tmp_path):
    chance = random.Random(3)
    runs = [[chance.uniform(0.02, 0.4) for _ in range(count)] for count in (37, 101)]
    logs = [write_log(tmp_path / f"{number}.jsonl", ended_with(run)) for number, run in enumerate(runs)]
    with history(*logs) as client:
        answer = client.of(logs[0], f"/compare?with={place(logs[1]).rpartition('/')[2]}")
        back = client.of(logs[1], f"/compare?with={place(logs[0]).rpartition('/')[2]}")
    figures = {row["name"]: row for row in answer["figures"]}
    for name, share in (("median", 0.5), ("p99", 0.99), ("longest", 1.0)):
        row = figures[f"window latency, {name}"]
        expected = [1000 * rank(run, share) for run in runs]
        assert row["values"] == pytest.approx(expected)
        assert row["difference"] == pytest.approx(expected[1] - expected[0])
        assert row["ratio"] == pytest.approx(expected[1] / expected[0])
    assert figures["windows committed"]["values"] == [37, 101]
    rates = [100 * len(run) / (10 * (len(run) - 1) + run[-1]) for run in runs]
    assert figures["tuples in"]["values"] == pytest.approx(rates)
    assert [len(run["windows"]) for run in answer["runs"]] == [37, 101]
    for row, other in zip(answer["figures"], back["figures"], strict=True):
        assert row["values"] == other["values"][::-1]
    double = next(row for row in answer["operators"] if row["operator"] == "double")
    assert double["partitions"] == [2, 2]
    assert [row["difference"] for row in double["figures"] if row["unit"] == "ms"] == pytest.approx([0, 0, 0])


def test_runs_of_different_applications_have_what_each_has(tmp_path):
    _, found = events_of(payments())
    logs = [write_log(tmp_path / "one.jsonl", events(3)), write_log(tmp_path / "two.jsonl", found)]
    with history(*logs, runs=lambda _: True) as client:
        answer = client.of(logs[0], f"/compare?with={place(logs[1]).rpartition('/')[2]}")
        rows = {row["operator"]: row for row in answer["operators"]}
        assert rows["double"]["partitions"] == [2, None]
        assert rows["balances"]["partitions"] == [None, 2]
        assert rows["double"]["figures"][0]["difference"] is None
        assert "`with` is missing" in client.of(logs[0], "/compare", 400)["error"]
        assert "there is no run" in client.of(logs[0], "/compare?with=none", 404)["error"]


def test_a_run_without_a_window(tmp_path):
    logs = [write_log(tmp_path / "none.jsonl", events(0)), write_log(tmp_path / "some.jsonl", events(2))]
    with history(*logs) as client:
        answer = client.of(logs[0], f"/compare?with={place(logs[1]).rpartition('/')[2]}")
    assert answer["figures"][0]["values"][0] is None
    assert answer["figures"][0]["ratio"] is None
