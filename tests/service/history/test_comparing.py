"""Two runs side by side: each figure against one that is computed from the events by hand."""

import json
import random
import zipfile

import pytest

from ridgeline.service.history.asking import LogAsks
from ridgeline.service.history.bundling import entry_of, make_bundle
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


def bundle_of(log, *, instead=None):
    """A bundle of a log; `instead`: answers by path that it has in the place of its own."""
    file = make_bundle_of(log)
    with zipfile.ZipFile(file) as old:
        entries = {name: old.read(name) for name in old.namelist()}
    for path, answer in (instead or {}).items():
        entries[entry_of(path, {})] = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    with zipfile.ZipFile(file, "w") as new:
        for name, data in entries.items():
            new.writestr(name, data)
    return file


def make_bundle_of(log):
    """A bundle beside its log."""
    file = log.with_suffix(".zip")
    make_bundle(LogAsks(log), file, made=2_000.0)
    return file


def figures_of(answer):
    """What is compared of runs and operators, but for what an event log alone has."""
    rows = [(row["name"], tuple(row["values"])) for row in answer["figures"]]
    for one in answer["operators"]:
        rows.append((one["operator"], tuple(one["partitions"])))
        kept = (row for row in one["figures"] if row["name"] != "compute a window")
        rows += [(one["operator"], row["name"], tuple(row["values"])) for row in kept]
    return rows


def test_a_bundle_is_compared_as_the_log_that_it_was_made_of(tmp_path):
    logs = [
        write_log(tmp_path / "one.jsonl", ended_with([0.1, 0.3, 0.2])),
        write_log(tmp_path / "two.jsonl", ended_with([0.2] * 5)),
    ]
    bundles = [make_bundle_of(log) for log in logs]
    with history(*logs, *bundles) as client:
        answers = [
            client.of(one, f"/compare?with={place(other).rpartition('/')[2]}")
            for one in (logs[0], bundles[0])
            for other in (logs[1], bundles[1])
        ]
    assert figures_of(answers[0])
    for answer in answers[1:]:
        assert figures_of(answer) == figures_of(answers[0])
        assert answer["runs"] == answers[0]["runs"]
        assert [answer[name] for name in ("configuration", "plan", "versions", "lines")] == [[], [], [], []]


def line(text, share, number=7):
    return {"file": "a.py", "line": number, "function": "parse", "text": text} | {
        "seconds": share,
        "share": share,
        "ofPath": 0.0,
    }


def test_lines_values_plans_and_versions_that_differ(tmp_path):
    logs = [write_log(tmp_path / f"{name}.jsonl", events(3)) for name in ("one", "two")]
    with history(*logs) as client:
        plan = client.of(logs[0], "/logicalPlan")
        values = client.of(logs[0], "/configuration")["values"]
    other = {
        **plan,
        "operators": [
            {**one, "class": "shop.Double2"} if one["name"] == "double" else one for one in plan["operators"]
        ],
    }
    rows = [{"operator": "double", "seconds": 1.0}]
    changed = [
        {"key": "application.same", "operator": "", "value": 1},
        {"key": "application.slots", "operator": "", "value": 2},
    ]
    was = [
        {"key": "application.same", "operator": "", "value": 1},
        {"key": "application.slots", "operator": "", "value": 4},
    ]
    first = bundle_of(
        logs[0],
        instead={
            "/lines": {
                "seconds": 60,
                "operators": [{**rows[0], "lines": [line("json.loads(x)", 0.6), line("y = 2", 0.1)]}],
            },
            "/configuration": {"known": True, "values": [*values, *was]},
            "/versions": {"ridgeline": "1.0", "python": "3.11"},
        },
    )
    second = bundle_of(
        logs[1],
        instead={
            "/lines": {
                "seconds": 60,
                "operators": [{**rows[0], "lines": [line("json.loads(x)", 0.2, number=9)]}],
            },
            "/configuration": {"known": True, "values": [*values, *changed]},
            "/logicalPlan": other,
            "/versions": {"ridgeline": "1.1", "python": "3.11"},
        },
    )
    with history(first, second) as client:
        answer = client.of(first, f"/compare?with={place(second).rpartition('/')[2]}")
    assert [(row["text"], row["shares"]) for row in answer["lines"]] == [
        ("json.loads(x)", [0.6, 0.2]),
        ("y = 2", [0.1, 0.0]),
    ]
    assert answer["configuration"] == [{"name": "application.slots", "values": ["4", "2"]}]
    assert answer["versions"] == [{"name": "ridgeline", "values": ["1.0", "1.1"]}]
    changed_class = next(one["class"] for one in plan["operators"] if one["name"] == "double")
    assert answer["plan"] == [
        {"kind": "operator", "name": "double", "values": [changed_class, "shop.Double2"]}
    ]


@pytest.mark.parametrize("damage", [b"{", b"[]", b"null", b'{"overview": {}, "windows": 3}'])
def test_a_damaged_bundle_is_refused_with_its_name(tmp_path, damage):
    log = write_log(tmp_path / "one.jsonl", events(3))
    bundle = bundle_of(log, instead={"/live": damage})
    with history(log, bundle) as client:
        answer = client.of(log, f"/compare?with={place(bundle).rpartition('/')[2]}", 409)
    assert "damaged" in answer["error"]
