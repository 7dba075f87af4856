"""`kill -9` of what works on a checkpoint folder, before every single operation on its files."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeline import CheckpointError
from ridgeline.cli.load import load_application
from ridgeline.engine.driver.checkpoint.upkeep.contents import describe, runs_of, verify
from ridgeline.engine.driver.checkpoint.upkeep.copying import COPYING, copy, move
from ridgeline.engine.driver.checkpoint.upkeep.exporting import export_states
from ridgeline.testing import run_local
from support.crash.million import FILLED
from support.depth import DEPTH, deep
from support.rewound import LAST, application
from support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.slow]
TESTS = Path(__file__).parents[1]
MILLION = TESTS / "support" / "crash" / "million.py"
KEYS = 200_000 if DEPTH <= 1 else 1_000_000
LEAST = 12
"""Operations that each action has at least; fewer would mean that none are counted."""


@pytest.fixture(autouse=True)
def _private(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)


def killed(action: str, tmp_path: Path, rows: Path | None = None) -> list[Path]:
    """Folders in which an action on `first` was killed, one operation later each; the last was not."""
    script = "support.crash.killed_upkeep"
    words = [
        sys.executable,
        "-m",
        script,
        action,
        tmp_path / "first",
        tmp_path / "out",
        *([rows] if rows else []),
    ]
    environment = {"PYTHONPATH": str(TESTS), "PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    (tmp_path / "out").mkdir(mode=0o700)
    subprocess.run([str(one) for one in words], env=environment, check=True, timeout=120)
    folders = sorted((tmp_path / "out").iterdir())
    assert len(folders) > (LEAST if action != "prune" else LEAST // 3)
    return folders


def collected(state: Path, **more: int) -> list[object]:
    return sorted(run_local(application(), checkpoint=state, **more).collected("sink"))


def straight(tmp_path: Path) -> list[object]:
    """The output from where `first` ends, without any kill."""
    shutil.copytree(tmp_path / "first", tmp_path / "straight")
    return collected(tmp_path / "straight")


def whole(state: Path) -> list[int]:
    """The windows that a run can go back to; all their files are whole."""
    [run] = runs_of(str(state))
    assert not verify(run).faults, state
    return [one.window_id for one in describe(run).windows]


def test_an_import_is_there_or_not(tmp_path: Path) -> None:
    run_local(application(), windows=3, checkpoint=tmp_path / "first")
    export_states(str(tmp_path / "first"), tmp_path / "rows", ["totals"])
    path = tmp_path / "rows" / "totals.sums.parquet"
    table = pq.read_table(path)
    more = pa.compute.add(table["value"], 1000)
    pq.write_table(table.set_column(table.schema.get_field_index("value"), "value", more), path)
    results = []
    for folder in killed("import", tmp_path, tmp_path / "rows"):
        window = whole(folder / "state")[0]
        found = run_local(application(), windows=1, checkpoint=folder / "state").collected("sink")
        results.append(all(total > 1000 for _, total in found))
        assert results[-1] == (window > 2), folder
        assert results[-1] or all(total < 1000 for _, total in found)
    assert (results[0], results[-1]) == (False, True)
    assert results == sorted(results)


def command(*words: object, wait: bool = True) -> subprocess.Popen[bytes]:
    """`ridgeline checkpoint ...`."""
    line = [sys.executable, "-m", "ridgeline", "checkpoint", *map(str, words)]
    ran = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if wait:
        said = ran.communicate(timeout=PATIENCE_SECONDS)[0]
        assert ran.returncode == 0, said.decode()
    return ran


def test_a_large_import_that_is_killed_is_not_used_and_succeeds_again(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    first, rows = tmp_path / "first", tmp_path / "rows"
    app = load_application(str(MILLION), ["--output", str(tmp_path / "output")])
    one = {"holder.partitions": "1"}  # each partition of it has the same keys
    properties = {"holder.keys": str(KEYS)}
    run_local(app, windows=FILLED + 1, checkpoint=first, properties=properties, attributes=one)
    command("export-state", first, "--out", rows, "--operator", "holder")
    path = rows / "holder.held.parquet"
    table = pq.read_table(path)
    more = pa.compute.add(table["value"], 10**9)
    wanted = table.set_column(table.schema.get_field_index("value"), "value", more).sort_by("key")
    pq.write_table(wanted, path)
    assert len(wanted) > KEYS * 9 // 10
    last = whole(first)[0]
    for number in range(deep(2)):
        state, again = tmp_path / f"state{number}", tmp_path / f"again{number}"
        shutil.copytree(first, state)
        words = ("import-state", state, MILLION, "--from", rows, "--output", tmp_path / "output")
        words = (*words, "--attribute", "holder.partitions=1")
        there = {one.name for one in (state / "state").iterdir()}
        importing = command(*words, wait=False)
        wait_until(
            lambda there=there, state=state, importing=importing: (
                {one.name for one in (state / "state").iterdir()} - there or importing.poll() is not None
            ),
            "a file of the import",
            every=0.001,
        )
        time.sleep(chance.uniform(0.0, KEYS / 10**6) if number else 0.0)
        importing.kill()
        said = importing.communicate()[0].decode()
        assert importing.returncode in {0, -signal.SIGKILL}, said
        print(number, importing.returncode, whole(state)[0])
        if importing.returncode == -signal.SIGKILL and whole(state)[0] == last:
            command(*words)
        assert whole(state)[0] > last
        command("export-state", state, "--out", again, "--operator", "holder")
        assert pq.read_table(again / path.name).sort_by("key").equals(wanted)
        shutil.rmtree(state)


def test_a_move_is_ended_by_the_next_one(tmp_path: Path) -> None:
    run_local(application(), windows=LAST + 1, checkpoint=tmp_path / "first")
    rest = straight(tmp_path)
    for folder in killed("move", tmp_path):
        state, there = folder / "state", folder / "there"
        try:
            old = runs_of(str(state))
        except CheckpointError:
            assert not (there / COPYING).exists()  # the old one is given up once the new one is whole
        else:
            assert not verify(old[0]).faults
        move(str(state), str(there))
        assert LAST in whole(there)
        assert sorted(one.name for one in state.iterdir() if one.is_file()) == ["lock", "moved.json"]
        assert collected(there) == rest, folder


def test_a_copy_is_ended_by_the_next_one(tmp_path: Path) -> None:
    run_local(application(), windows=LAST + 1, checkpoint=tmp_path / "first")
    rest = straight(tmp_path)
    for folder in killed("copy", tmp_path):
        state, there = folder / "state", folder / "there"
        if not there.exists() or (there / COPYING).exists() or not any(there.iterdir()):
            copy(str(state), str(there))
        whole(there)
        assert collected(there) == rest, folder
        assert collected(state) == rest, folder


def test_pruning_takes_nothing_that_a_window_needs(tmp_path: Path) -> None:
    for _ in range(4):  # each driver begins a file of the journal
        run_local(application(), windows=2, checkpoint=tmp_path / "first")
    rest = straight(tmp_path)
    last = whole(tmp_path / "first")[0]
    for folder in killed("prune", tmp_path):
        windows = whole(folder / "state")
        assert windows[0] == last
        shutil.copytree(folder / "state", folder / "again")
        assert collected(folder / "state") == rest, folder
        again = run_local(application(), checkpoint=folder / "again", from_window=windows[-1])
        assert set(rest) <= set(again.collected("sink")), folder
