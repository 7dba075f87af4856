"""Rewinds over windows in which outputs were at several places, or there for a while: all is taken back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ridgeline import Application, CheckpointError, InputPort, Operator, Publisher, PublisherContext
from ridgeline.engine.driver.checkpoint.journal import Journal
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.rewinding import look
from ridgeline.engine.driver.run import live_plan
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.operators import FileOutput
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    Edit,
    RemoveOperator,
    RemoveSink,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetProperty,
)
from ridgeline.testing import run_local
from support.depth import deeper
from support.operators.publishing import KilledError, Steps
from support.rewound import LAST, Count, Numbers, Totals, application, rows, wanted

BACK = 0
KEEP = {"windows_kept": 60}


def files(path: str, roll: float = 0, **properties: object) -> dict[str, Any]:
    given = {"path": path, "roll_seconds": roll, **properties}
    return {"class": "ridgeline.operators.FileOutput", "properties": given}


def moved(path: str) -> list[Edit]:
    return [SetProperty("sink", "path", path)]


def formatted(name: str) -> list[Edit]:
    return [SetProperty("sink", "format", name)]


def more(path: str, roll: float = 0) -> list[Edit]:
    return [AddOperator("more", files(path, roll)), AddSink("totals", "more.input")]


NO_MORE: list[Edit] = [RemoveSink("totals", "more.input"), RemoveOperator("more")]


def shown() -> list[list[int]]:
    """What `sink` shows, wherever."""
    return sorted(row for folder in Path().glob("o*") for row in rows(folder))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[list[int]]:
    """What a run that is never rewound shows."""
    return wanted(tmp_path_factory.mktemp("straight"))


CHANGES: list[dict[int, list[Edit]]] = [
    {2: moved("other"), 4: moved("out")},
    {2: moved("other"), 3: moved("out"), 4: moved("other"), 6: moved("out")},
    {2: moved("other")},
    {1: moved("other"), 3: moved("o3"), 5: moved("other")},
    {2: formatted("jsonl"), 4: formatted("parquet")},
    {1: formatted("jsonl"), 3: formatted("parquet"), 4: formatted("jsonl")},
    {2: formatted("jsonl"), 3: moved("other"), 5: [*moved("out"), *formatted("parquet")]},
    {
        2: [ReplaceOperator("sink", files("other"))],
        4: [ReplaceOperator("sink", files("out", format="jsonl"))],
    },
    {3: [SetProperty("sink", "roll_seconds", 1000.0)]},
]


@pytest.mark.parametrize(
    ("changes", "roll", "partitions"),
    [
        pytest.param(
            changes, *[(0, 1), (2, 2), (1000, 3)][number % 3], marks=deeper if number >= len(CHANGES) else ()
        )
        for number, changes in enumerate([*CHANGES, *CHANGES[1:], CHANGES[0]])
    ],
)
def test_files_are_taken_back_at_every_place(
    expected: list[list[int]], changes: dict[int, list[Edit]], roll: float, partitions: int
) -> None:
    app = application(FileOutput(path="out", roll_seconds=roll))
    split = {0: [Repartition("sink", partitions)]} if partitions > 1 else {}
    first = run_local(
        app, windows=LAST + 1, checkpoint="state", attributes=KEEP, changes={**split, **changes}
    )
    assert {one.state for one in first.changes} == {"APPLIED"}, first.changes
    for window in (5, 3, 1):
        run_local(app, windows=1, checkpoint="state", attributes=KEEP, from_window=window)
        found = shown()
        assert len(found) == len({tuple(row) for row in found}) <= 4 * (window + 2)
        assert all(row in expected for row in found)
    run_local(app, checkpoint="state", attributes=KEEP)
    assert shown() == expected


def test_a_rewind_takes_back_what_other_versions_of_the_application_showed(expected: list[list[int]]) -> None:
    for number, path in enumerate(["out", "other", "out", "o3"]):
        app = application(FileOutput(path=path, roll_seconds=[0, 1000][number % 2]))
        run_local(app, windows=2, checkpoint="state", attributes=KEEP)
    run_local(app, windows=1, checkpoint="state", attributes=KEEP, from_window=6)
    assert len(shown()) == 4 * 8
    run_local(app, windows=1, checkpoint="state", attributes=KEEP, from_window=1)
    assert shown() == [row for row in expected if row in shown()]
    assert (len(shown()), len(rows(Path("other")))) == (4 * 3, 0)
    run_local(app, checkpoint="state")
    assert shown() == expected


def test_windows_of_earlier_versions_are_taken_back_too(
    expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = Manifest.picture
    for number, gone in enumerate([{"makers"}, {"makers", "outputs"}]):
        out, other, state = f"out{number}", f"other{number}", f"state{number}"
        app = application(FileOutput(path=out, roll_seconds=2))
        with monkeypatch.context() as patch:
            patch.setattr(
                Manifest,
                "picture",
                lambda one, gone=gone: {key: value for key, value in picture(one).items() if key not in gone},
            )
            changes = {2: moved(other), 4: moved(out)}
            run_local(app, windows=6, checkpoint=state, attributes=KEEP, changes=changes)
        run_local(app, checkpoint=state, attributes=KEEP, from_window=1)
        assert sorted(rows(Path(out))) == expected
        assert rows(Path(other)) == []


def by_window() -> list[list[list[int]]]:
    """What a run that is never rewound shows, by window."""
    straight = run_local(application())
    return [[list(row) for row in straight.collected("sink", window=one)] for one in straight.window_ids]


@pytest.mark.parametrize("seed", range(3))
def test_after_any_changes_and_rewinds_each_row_is_shown_where_it_counts(seed: int) -> None:
    random, each_window = Random(seed), by_window()
    app = application(FileOutput(path="out", roll_seconds=random.choice([0, 2, 1000])))
    kept: list[Manifest] = []
    for turn in range(5):
        back = random.choice(kept) if turn else None
        there = back is not None and "more" in (back.outputs or {})
        changes: dict[int, list[Edit]] = {}
        begin = kept[0].window_id + 2 if kept else 0
        for window in range(begin, begin + 5):
            edits = [moved(random.choice(["out", "other"])), formatted(random.choice(["jsonl", "parquet"]))]
            edits += [[Repartition("sink", random.choice([1, 2, 3, 5]))]]
            edits += [NO_MORE if there else more(random.choice(["out", "m1"]), random.choice([0, 1000]))]
            if random.random() < 0.6:
                changes[window] = random.choice(edits)
                there ^= changes[window] is edits[-1]
        windows = random.randrange(1, 6)
        run_local(
            app,
            windows=windows,
            checkpoint="state",
            attributes=KEEP,
            changes=changes,
            from_window=None if back is None else back.window_id,
        )
        kept = look(LocalStorage("state"))
        counted = [one for one in reversed(kept) if one.rewound_to is None]
        assert shown() == sorted(row for window in each_window[: len(counted)] for row in window)
        extra = [each_window[number] for number, one in enumerate(counted) if "more" in (one.outputs or {})]
        found = [row for folder in ("out", "m1") for row in rows(Path(folder), "more")]
        assert sorted(found) == sorted(row for window in extra for row in window)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "roll"),
    [
        ({2: moved("at/other"), 3: [*moved("at/out"), *formatted("jsonl")], 4: formatted("parquet")}, 1000),
        ({2: more("at/m1", 1000), 3: moved("at/other"), 4: NO_MORE}, 2),
    ],
)
def test_a_driver_that_dies_at_any_step_takes_back_at_every_place_in_the_end(
    expected: list[list[int]],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[int, list[Edit]],
    roll: float,
) -> None:
    steps = Steps(monkeypatch)
    append = Journal.append

    def counted(*arguments: object) -> object:
        steps("commit")
        result = append(*arguments)  # type: ignore[arg-type]
        steps("committed")
        return result

    monkeypatch.setattr(Journal, "append", counted)
    app = application(FileOutput(path="at/out", roll_seconds=roll))
    run_local(app, windows=6, checkpoint="at/state", attributes=KEEP, changes=changes)
    Path("at").rename("saved")
    rewound, died = set(), True
    survive = 0
    while died:
        shutil.rmtree("at", ignore_errors=True)
        shutil.copytree("saved", "at")
        before = {tuple(row) for folder in Path("at").glob("o*") for row in rows(folder)}
        steps.number = 0

        def each(number: int, what: str, survive: int = survive) -> None:
            if number == survive:
                raise KilledError(what)

        steps.each, died = each, False
        try:
            run_local(app, windows=1, checkpoint="at/state", attributes=KEEP, from_window=BACK)
        except KilledError:
            died = True
        steps.each = lambda _number, _what: None
        found = [tuple(row) for folder in Path("at").glob("o*") for row in rows(folder)]
        assert len(found) == len(set(found))
        assert not died or set(found) <= before
        rest = run_local(app, checkpoint="at/state", attributes=KEEP)
        is_rewound = rest.window_ids[0] > LAST
        rewound.add(is_rewound)
        assert sorted(row for folder in Path("at").glob("o*") for row in rows(folder)) == expected
        assert bool(rows(Path("at/m1"), "more")) == (not is_rewound and len(changes[2]) > 1)
        survive += 1
    assert survive > 10
    assert rewound == {False, True}


def test_a_place_that_is_gone_is_told_before_anything_changes(expected: list[list[int]]) -> None:
    app = application(FileOutput(path="out", roll_seconds=0))
    changes = {2: moved("other"), 4: moved("out")}
    run_local(app, windows=6, checkpoint="state", attributes=KEEP, changes=changes)
    Path("other").rename("away")
    before = {path: path.read_bytes() for path in Path().glob("*/sink-*")}
    message = r"cannot rewind to window 1: what `sink` has shown up to window 3 .* `.*other` is missing"
    with pytest.raises(CheckpointError, match=message):
        run_local(app, checkpoint="state", attributes=KEEP, from_window=1)
    assert {path: path.read_bytes() for path in Path().glob("*/sink-*")} == before
    run_local(app, windows=1, checkpoint="state", attributes=KEEP, from_window=4)
    Path("away").rename("other")
    run_local(app, checkpoint="state", attributes=KEEP, from_window=1)
    assert shown() == expected


def test_an_output_that_the_application_has_no_more_shows_what_was_until_the_window() -> None:
    each_window = by_window()

    def version(*, extra: bool) -> Application:
        app = Application("rewound")
        numbers, totals = app.add_operator("numbers", Numbers()), app.add_operator("totals", Totals())
        sinks = [app.add_operator("sink", FileOutput(path="out", roll_seconds=0))]
        if extra:
            sinks.append(app.add_operator("more", FileOutput(path="m1", roll_seconds=1000)))
        app.add_stream("numbers", numbers.numbers, totals.numbers)
        app.add_stream("totals", totals.totals, *(sink.input for sink in sinks))
        return app

    run_local(version(extra=True), windows=4, checkpoint="state", attributes=KEEP)
    run_local(version(extra=False), windows=2, checkpoint="state", attributes=KEEP)
    run_local(version(extra=False), windows=1, checkpoint="state", attributes=KEEP, from_window=1)
    assert sorted(rows(Path("m1"), "more")) == sorted(row for window in each_window[:2] for row in window)
    assert len(shown()) == 4 * 3


class Listed(Publisher):
    """Keeps lines of a file, which it takes back wherever it was."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    @classmethod
    def of_state(cls, state: Any) -> Listed:
        return cls(state["path"])

    def place(self) -> str:
        return str(self.path)

    def open(self, context: PublisherContext, state: Any) -> None:
        if state and "after" in state and self.path.exists():
            lines = self.path.read_text().splitlines()
            kept = [line for line in lines if not state["after"] < json.loads(line)[0] <= state["from"]]
            self.path.write_text("".join(f"{line}\n" for line in kept))

    def stage(self, window_id: int, values: Any) -> Any:
        self.lines = [[window_id, value] for value in values]
        return {"path": str(self.path)}

    def publish(self, window_id: int) -> None:
        with self.path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in getattr(self, "lines", ()))
        self.lines = []

    def rewind(self, window_id: int, state: Any, at: int) -> Any:
        return {"path": str(self.path), "after": window_id, "from": at}


class List(Operator):
    """An output of one's own."""

    input = InputPort(Count)
    path: str

    @input.process
    def put(self, count: Count) -> None:
        self.context.hand_over(count.total)

    def publisher(self) -> Publisher:
        return Listed(self.path)


def test_an_output_of_ones_own_takes_back_where_it_was() -> None:
    spec = {"class": f"{__name__}.List", "properties": {"path": "more.txt"}}
    add = [AddOperator("more", spec), AddSink("totals", "more.input")]
    changes = {2: add, 3: [SetProperty("sink", "path", "b.txt")], 4: NO_MORE}
    changes |= {5: [SetProperty("sink", "path", "a.txt")]}
    run = run_local(
        application(List(path="a.txt")), windows=7, checkpoint="state", attributes=KEEP, changes=changes
    )
    assert {one.state for one in run.changes} == {"APPLIED"}, run.changes
    run_local(application(List(path="a.txt")), windows=1, checkpoint="state", attributes=KEEP, from_window=1)
    windows = [json.loads(line)[0] for line in Path("a.txt").read_text().splitlines()]
    assert windows == [0] * 4 + [1] * 4 + [8] * 4
    assert Path("b.txt").read_text() == Path("more.txt").read_text() == ""


def test_what_an_earlier_rewind_has_left_is_done_before_another_one(
    expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = application(FileOutput(path="out", roll_seconds=1000))
    changes = {2: moved("other"), 4: moved("out"), 6: moved("o3")}
    run_local(app, windows=8, checkpoint="state", attributes=KEEP, changes=changes)

    def die(*_: object) -> None:
        raise KilledError

    for window in (6, 5, 3):
        with monkeypatch.context() as patch:
            patch.setattr(live_plan, "take_back_left", die)
            with pytest.raises(KilledError):
                run_local(app, checkpoint="state", attributes=KEEP, from_window=window)
    run_local(app, windows=1, checkpoint="state", attributes=KEEP, from_window=1)
    assert len(shown()) == 4 * 3
    run_local(app, checkpoint="state", attributes=KEEP)
    assert shown() == expected


def test_one_folder_under_two_paths_is_taken_back_once(expected: list[list[int]]) -> None:
    Path("real").mkdir()
    for name in ("a", "b"):
        Path(name).symlink_to("real")
    app = application(FileOutput(path="a", roll_seconds=1000))
    changes = {3: moved("b"), 5: moved("a")}
    run_local(app, windows=7, checkpoint="state", attributes=KEEP, changes=changes)
    for window in (4, 1):
        run_local(app, windows=1, checkpoint="state", attributes=KEEP, from_window=window)
        assert len(rows(Path("real"))) == 4 * (window + 2)
    run_local(app, checkpoint="state", attributes=KEEP)
    assert sorted(rows(Path("real"))) == expected


def test_files_are_taken_back_under_each_name_of_the_operator(expected: list[list[int]]) -> None:
    app = application(FileOutput(path="out", roll_seconds=2))
    changes: dict[int, list[Edit]] = {3: [RenameOperator("sink", "store")]}
    run_local(app, windows=7, checkpoint="state", attributes=KEEP, changes=changes)
    run_local(app, checkpoint="state", attributes=KEEP, from_window=1)
    assert sorted(rows(Path("out"))) == expected
    assert rows(Path("out"), "store") == []
