"""Checkpoint folders that are described, checked, copied and cleaned, and deaths at every step."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from ridgeline import Application, CheckpointError
from ridgeline.cli.main import app
from ridgeline.engine.driver.checkpoint.upkeep.contents import describe, hold, runs_of, verify, walk
from ridgeline.engine.driver.checkpoint.upkeep.copying import copy
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.operators import FileOutput
from ridgeline.testing import CollectorSink, run_local
from support.rewound import LAST, Count, Numbers, Totals, application, rows, wanted


@pytest.fixture(autouse=True)
def _private(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)


def stopped(path: Path, output: FileOutput | None = None) -> None:
    run_local(application(output), windows=LAST + 1, checkpoint=path)


def command(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["checkpoint", *map(str, words)])
    return done.exit_code, done.output


class DiedError(BaseException):
    """The process dies here."""


def dying(at: int):
    """A step that dies the `at`-th time."""
    steps = []

    def step(name: str) -> None:
        steps.append(name)
        if len(steps) == at:
            raise DiedError

    return step


def test_a_folder_is_described_and_read(tmp_path: Path) -> None:
    stopped(tmp_path / "state")
    [run] = runs_of(str(tmp_path / "state"))
    found = describe(run)
    assert (run.application, found.windows[0].window_id) == ("rewound", LAST)
    assert set(found.operators) == {"numbers/0/1", "totals/0/2", "totals/1/2"}
    assert all(found.operators.values())
    assert not verify(run).faults

    code, text = command("describe", tmp_path / "state", "--json")
    assert (code, json.loads(text)[0]["windows"][0]) == (0, LAST)
    assert command("verify", tmp_path / "state")[1].startswith("whole: read ")
    assert command("verify", tmp_path / "nothing")[0] == 1


def test_every_damaged_file_is_named(tmp_path: Path) -> None:
    stopped(tmp_path / "state")
    copy(str(tmp_path / "state"), str(tmp_path / "copy"))  # each change is a file there
    [run] = runs_of(str(tmp_path / "copy"))
    names = [name for name in walk(run.storage.uri) if name.startswith(("state/", "journal/"))]
    for name in names:
        path = tmp_path / "copy" / name
        whole = path.read_bytes()
        place = Random(name).randrange(len(whole))
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        faults = verify(run).faults
        path.write_bytes(whole)
        assert len(faults) >= 1, name
        assert any(name.rpartition("/")[2] in fault for fault in faults)
    assert not verify(run).faults


@pytest.mark.parametrize("lost", ["journal", "journal state", "journal committed", "journal epochs"])
@pytest.mark.parametrize("how", ["older", "emptied", "gone"])
def test_a_journal_that_was_emptied_or_is_older_is_damage_as_for_a_start(
    tmp_path: Path, lost: str, how: str
) -> None:
    state, early = tmp_path / "state", tmp_path / "early"
    run_local(application(), windows=3, checkpoint=early)
    shutil.copytree(early, state)
    run_local(application(), windows=5, checkpoint=state, attributes={"snapshot_interval": 2})
    [run] = runs_of(str(state))
    assert not verify(run).faults
    for name in lost.split():
        shutil.rmtree(state / name)
        if how == "older" and (early / name).exists():
            shutil.copytree(early / name, state / name)
        elif how == "emptied":
            (state / name).mkdir()
    faults = verify(run).faults
    with pytest.raises(CheckpointError) as refused:
        run_local(application(), windows=1, checkpoint=state)
    assert str(refused.value) in faults


def test_a_copy_into_itself_is_refused(tmp_path: Path) -> None:
    stopped(tmp_path / "state")
    for source, target in [("state", "state/inside"), ("state", "."), ("state", "state/../state/x")]:
        with pytest.raises(CheckpointError, match="lies within the other; give a folder beside it"):
            copy(str(tmp_path / source), str(tmp_path / target))
    assert not (tmp_path / "state" / "inside").exists()


def test_a_copy_that_is_taken_while_it_runs_is_of_one_moment(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    # One run, which rewinds again and again, so that states are written and removed all the time.
    def rewinding() -> None:
        try:
            run_local(application(), windows=5, checkpoint=tmp_path / "state")
            started.set()
            while not over.is_set():
                [one] = runs_of(str(tmp_path / "state"))
                windows = [window.window_id for window in describe(one).windows]
                run_local(application(), windows=2, checkpoint=tmp_path / "state", from_window=windows[2])
        except BaseException as error:  # noqa: BLE001  raised below
            failures.append(error)
            started.set()

    started, over = threading.Event(), threading.Event()
    thread = threading.Thread(target=rewinding)
    thread.start()
    try:
        assert started.wait(60)
        for number in range(4):
            target = tmp_path / f"copy{number}"
            copied = copy(str(tmp_path / "state"), str(target))
            [one] = runs_of(str(target))
            assert not verify(one).faults
            assert [window.window_id for window in describe(one).windows]
            assert copied.windows
            run_local(application(), checkpoint=target)
    finally:
        over.set()
        thread.join(60)
    assert not failures


def test_a_moved_application_is_rewound_across_the_move(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    stopped(tmp_path / "state", FileOutput(path=str(old)))
    shutil.move(old, new)
    moved = f"{old}={new}"
    code, text = command("copy", tmp_path / "state", tmp_path / "there", "--moved", moved)
    said = f"copied {tmp_path / 'state'} to {tmp_path / 'there'}"
    assert (code, text.splitlines()[0].partition(":")[0]) == (0, said)
    run_local(application(FileOutput(path=str(new))), checkpoint=tmp_path / "there", from_window=2)
    assert sorted(rows(new)) == wanted(tmp_path / "straight")


def test_a_copy_that_dies_at_any_step_loses_nothing(tmp_path: Path) -> None:
    """Whatever is left, the same command brings it to its end, and nothing starts with half of it."""
    run_local(application(), windows=2, checkpoint=tmp_path / "kept")
    straight = None
    at = 0
    while True:
        at += 1 if at < 2 else 3  # most steps are copies of files
        source, target = tmp_path / f"s{at}", tmp_path / f"t{at}"
        shutil.copytree(tmp_path / "kept", source)
        try:
            copy(str(source), str(target), None, dying(at))
        except DiedError:
            pass
        else:
            break
        whole = [one for one in (source, target) if (one / "run.json").exists()]
        assert not verify(runs_of(str(whole[-1]))[0]).faults
        if (target / "copying.json").exists() or not (target / "run.json").exists():
            copy(str(source), str(target))
        if straight is None:
            straight = sorted(run_local(application(), checkpoint=target).collected("sink"))
        elif at % 4 == 0:
            assert sorted(run_local(application(), checkpoint=target).collected("sink")) == straight
        shutil.rmtree(source)
        shutil.rmtree(target)
    assert at > 8


def test_a_start_while_a_command_holds_the_folder_names_the_command(tmp_path: Path) -> None:
    stopped(tmp_path / "state")
    with ExitStack() as locks:
        hold(LocalStorage(str(tmp_path / "state")), "ridgeline checkpoint copy", locks)
        said = r"in use by `ridgeline checkpoint copy`, process \d+ on .*; wait until it has ended, or give"
        with pytest.raises(CheckpointError, match=said):
            run_local(application(), checkpoint=str(tmp_path / "state"))


def test_a_disk_that_takes_no_more_loses_nothing_and_the_same_command_continues(tmp_path: Path) -> None:
    stopped(tmp_path / "state")
    straight = tmp_path / "straight"
    copy(str(tmp_path / "state"), str(straight))

    def limited(*words: object) -> str:
        """The output of a command in whose process no file gets more than 1,024 bytes."""
        line = [sys.executable, "-m", "ridgeline", "checkpoint", *map(str, words)]
        shell = ["bash", "-c", 'trap "" XFSZ; ulimit -f 1; exec "$@"', "bash", *line]
        done = subprocess.run(shell, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return " ".join(done.stderr.split())

    (tmp_path / "rows").mkdir()
    assert "export again" in limited("export-state", tmp_path / "state", "--out", tmp_path / "rows")
    assert not list((tmp_path / "rows").iterdir())
    assert "File too large; fix that, and give the same command again" in limited(
        "copy", tmp_path / "state", tmp_path / "there"
    )
    assert not verify(runs_of(str(tmp_path / "state"))[0]).faults
    assert command("copy", tmp_path / "state", tmp_path / "there")[0] == 0
    found = [
        run_local(application(), checkpoint=one).collected("sink") for one in (tmp_path / "there", straight)
    ]
    assert sorted(found[0]) == sorted(found[1])


def test_regions_are_copied_with_their_queues(tmp_path: Path) -> None:
    def regions() -> Application:
        made = Application("regions")
        numbers = made.add_operator("numbers", Numbers())
        totals = made.add_operator("totals", Totals())
        sink = made.add_operator("sink", CollectorSink(Count))
        made.add_stream("numbers", numbers.numbers, totals.numbers, decoupled={totals.numbers})
        made.add_stream("totals", totals.totals, sink.input)
        return made

    run_local(regions(), windows=5, checkpoint=tmp_path / "state")
    copy(str(tmp_path / "state"), str(tmp_path / "copy"))
    copy(str(tmp_path / "copy"), str(tmp_path / "there"))
    shutil.rmtree(tmp_path / "copy")
    assert [run.region for run in runs_of(str(tmp_path / "there"))]
    state, there = (
        sorted(run_local(regions(), checkpoint=tmp_path / name).collected("sink"))
        for name in ("state", "there")
    )
    assert state
    assert state == there
