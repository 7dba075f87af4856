from __future__ import annotations

import bz2
import gzip
import tempfile
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.operators import FileReplayInput, file_replay_input
from ridgeline.operators.files import _lines
from ridgeline.plan.edits import Repartition
from ridgeline.testing import CollectorSink, run_local
from support.depth import deep
from support.operators.harness import Driven, HandClock
from support.operators.replayed import replay, together, write


@pytest.mark.guide("004", "Input Adapters")
@settings(max_examples=deep(24), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    format=st.sampled_from(["text", "csv", "jsonl", "parquet"]),
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    rows_per_window=st.integers(1, 15),
    partitions=st.integers(1, 4),
    in_turn=st.integers(1, 5),
    failures=st.sets(st.integers(0, 20), max_size=5),
    random=st.randoms(use_true_random=False),
)
def test_any_split_into_windows_and_partitions_gives_all_rows_once_and_in_order(
    format: Any,
    sizes: list[int],
    rows_per_window: int,
    partitions: int,
    in_turn: int,
    failures: set[int],
    random: Random,
) -> None:
    total, numbers = sum(sizes), iter(range(sum(sizes)))
    files = [[next(numbers) for _ in range(size)] for size in sizes]
    form = {
        "blank": random.randrange(4),
        "last_newline": random.choice([True, False]),
        "ending": random.choice(["\n", "\r\n"]),
    }
    rotate, block = random.choice([True, False]), random.randint(1, 40)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        patch.setattr(_lines, "BLOCK_BYTES", block)
        patch.setattr(_lines, "HEAD_BYTES", block)
        write(folder, format, files, **form)
        if random.random() < 0.5 and format != "parquet":
            for number, path in enumerate(sorted(folder.iterdir())):
                codec, suffix = [(gzip, "gz"), (bz2, "bz2")][number % 2]
                path.with_name(f"{path.name}.{suffix}").write_bytes(codec.compress(path.read_bytes()))
                path.unlink()
        operator = replay(folder, format, rows_per_window=rows_per_window, rows_in_turn=in_turn)
        parts = [
            Driven(operator, partition=p, partitions=partitions, rotate=rotate) for p in range(partitions)
        ]
        windows: list[Any] = []
        while not (windows and parts[0].finished):
            for part in parts:
                if len(windows) in failures:
                    part.window(commit=False)
            windows += together(parts, 1)
    assert len(windows) == max(1, -(-total // rows_per_window))
    for window, shares in enumerate(windows):
        expected = range(window * rows_per_window, min(total, (window + 1) * rows_per_window))
        assert shares == [
            tuple(n for n in expected if n // in_turn % partitions == p) for p in range(partitions)
        ]


def test_a_rate_is_kept_by_the_clock_also_through_slow_windows_and_new_workers(tmp_path: Path) -> None:
    write(tmp_path, "text", [list(range(100))])
    clock = HandClock()
    parts = [
        Driven(
            replay(tmp_path, "text", rows_per_second=10), partition=p, partitions=2, rotate=True, clock=clock
        )
        for p in range(2)
    ]
    counts = []
    for seconds in [0, 0.1, 0.1, 0.25, 0.05, 2, 0, 3, 0.5, 0.5, 3_600, 0.1, 0.1]:
        clock.seconds += seconds
        for part in parts:
            part.window(commit=False)
        counts.append(sum(len(share) for share in together(parts, 1)[0]))
        if parts[0].finished:
            break
    assert counts == [0, 1, 1, 2, 1, 20, 0, 20, 15, 5, 20, 15]
    assert sum(counts) == 100
    assert parts[0].finished


@pytest.mark.parametrize(("rate", "window_seconds"), [(10, 1.0), (40, 0.25), (5, 2.0)])
def test_a_pause_is_made_up_for_at_double_pace_and_for_ten_seconds_at_most(
    tmp_path: Path, rate: int, window_seconds: float
) -> None:
    write(tmp_path, "text", [list(range(3000))])
    clock = HandClock()
    part = Driven(
        replay(tmp_path, "text", rows_per_second=rate),
        rotate=True,
        clock=clock,
        window_seconds=window_seconds,
    )
    assert together([part], 1) == [[()]]
    usual = round(rate * window_seconds)
    for pause, made_up in [(3_600, 10), (4, 4), (10, 10)]:
        clock.seconds += pause
        counts = [len(together([part], 1)[0][0])]
        while counts[-1] != usual:
            clock.seconds += window_seconds
            counts.append(len(together([part], 1)[0][0]))
        assert counts[:-1] == [2 * usual] * len(counts[:-1])
        assert sum(counts) == rate * made_up + usual * (len(counts) - 1)


def test_more_rows_than_a_window_takes_wait_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_replay_input, "MOST_ROWS", 4)
    write(tmp_path, "text", [list(range(10))])
    clock = HandClock()
    part = Driven(replay(tmp_path / "000.text", "text", rows_per_second=100), clock=clock)
    part.window()
    clock.seconds += 1
    assert together([part]) == [[(0, 1, 2, 3)], [(4, 5, 6, 7)], [(8, 9)]]


def test_a_pace_may_change_on_the_way(tmp_path: Path) -> None:
    write(tmp_path, "text", [list(range(30))])
    clock = HandClock()
    part = Driven(replay(tmp_path, "text", rows_per_window=10), clock=clock)
    part.window()
    other = Driven(replay(tmp_path, "text", rows_per_second=1), clock=clock)
    other.state = part.state
    assert together([other], 1) == [[()]]
    clock.seconds += 2
    assert together([other], 1) == [[(10, 11)]]


def test_files_of_folders_patterns_and_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate(
        ["b/2.txt", "a/1.txt", "a/_SUCCESS", "a/.hidden", "a/deep/3.txt", "a/0[1].txt"]
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(f"{number}\n")
    monkeypatch.chdir(tmp_path)

    def read(path: Any) -> list[int]:
        part = Driven(replay(path, "text"))
        with monkeypatch.context() as patch:
            patch.chdir("/")
            return [n for shares in together([part]) for share in shares for n in share]

    assert read("a") == [5, 1]
    assert read("a/0[1].txt") == [5]
    assert read("*/[0-9].txt") == [1, 0]
    assert read("**/[0-9].txt") == [1, 4, 0]
    assert read(["b", Path("a")]) == [0, 5, 1]
    assert read(f"file://{tmp_path}/a/*/3.txt") == [4]
    (tmp_path / "empty.txt").write_text("")
    assert read(["empty.txt"]) == []
    (tmp_path / "empty.csv").write_text("")
    assert together([Driven(replay(tmp_path / "empty.csv", "csv"))]) == [[()]]


def test_the_files_are_settled_in_the_first_window(tmp_path: Path) -> None:
    write(tmp_path, "text", [[1, 2]])
    part = Driven(replay(tmp_path, "text", rows_per_window=1), rotate=True)
    part.window()
    (tmp_path / "000.a").write_text("0\n")
    (tmp_path / "zzz").write_text("9\n")
    assert together([part]) == [[(2,)]]


@pytest.mark.parametrize("format", ["text", "parquet"])
def test_progress_adds_up_over_partitions(tmp_path: Path, format: str) -> None:
    write(tmp_path, format, [list(range(50)), list(range(50, 100))])
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    parts = [
        Driven(replay(tmp_path, format, rows_per_window=30), partition=p, partitions=2) for p in range(2)
    ]
    seen = []
    while not (seen and parts[0].finished):
        together(parts, 1)
        progress = [part.operator.progress() for part in parts]
        assert sum(passed + left for passed, left in progress) == pytest.approx(size)
        seen.append(sum(passed for passed, _ in progress) / size)
    assert seen == sorted(seen)
    assert seen[0] == pytest.approx(0.3, abs=0.05)
    assert seen[-1] == pytest.approx(1)


class Row(NamedTuple):
    text: str


def test_its_partitions_may_change_while_it_runs(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("".join(f"{number}\n" for number in range(50)))
    app = Application("replay")
    rows = FileReplayInput(path=tmp_path, schema=Row, rows_per_window=5)
    app.read("rows", rows, partitions=2).write("sink", CollectorSink(Row))
    run = run_local(app, changes={3: [Repartition("rows", 3)]})

    assert [change.state for change in run.changes] == ["APPLIED"]
    assert sorted(int(row.text) for row in run.collected("sink")) == list(range(50))
