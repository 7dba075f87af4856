"""The order of a publication: ask for the owner, bring the file into sight, then move the marker."""

import json
from pathlib import Path

import pytest

from ridgeline.api.errors import FencedError
from ridgeline.connect.output_files import OutputFiles
from ridgeline.operators import FileOutput
from support.operators.publishing import Driver, KilledError, Steps, Store, visible


def test_a_driver_that_has_lost_the_checkpoint_brings_nothing_into_sight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second driver starts while the first writes its file, and has another one with the same rows."""
    steps = Steps(monkeypatch)
    store = Store(tmp_path / "out", 2)
    output = FileOutput(path=store.folder, format="jsonl", roll_seconds=0)
    seen: list[list[int]] = []

    def each(_number: int, what: str) -> None:
        if what.startswith("writing merged") and store.epoch == 1:
            store.epoch += 1
        seen.append(visible(store.folder))

    steps.each = each
    first = Driver(store, output, steps)
    with pytest.raises(FencedError):
        first.window()
    assert visible(store.folder) == []
    assert not any(seen)
    Driver(store, output, steps)
    assert sorted(visible(store.folder)) == store.rows(0)


@pytest.mark.parametrize("partitions", [1, 2])
def test_the_marker_names_no_window_that_is_not_in_sight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    steps = Steps(monkeypatch)
    store = Store(tmp_path / "out", partitions)
    output = FileOutput(path=store.folder, format="jsonl", roll_seconds=0)

    def each(_number: int, _what: str) -> None:
        marked = max(int(path.name.partition("-")[2]) for path in store.folder.rglob("published-*"))
        rows = [row for window in range(marked + 1) for row in store.rows(window)]
        assert sorted(visible(store.folder)) >= rows

    driver = Driver(store, output, steps)
    steps.each = each
    for _ in range(3):
        driver.window()
    assert sorted(visible(store.folder)) == store.committed


def test_a_rename_that_fails_leaves_the_rows_for_the_next_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    store = Store(tmp_path / "out")
    output = FileOutput(path=store.folder, format="jsonl", roll_seconds=0)

    def each(_number: int, what: str) -> None:
        if what.startswith("move") and ".jsonl" in what:
            raise KilledError(what)

    driver = Driver(store, output, steps)
    steps.each = each
    with pytest.raises(KilledError):
        driver.window()
    steps.each = lambda _number, _what: None
    assert visible(store.folder) == []
    Driver(store, output, steps)
    assert visible(store.folder) == store.rows(0)


def test_names_are_synced_before_what_relies_on_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of segments before the record that names them, of the file before the marker moves."""
    steps = Steps(monkeypatch)
    store = Store(tmp_path / "out", 2)
    output = FileOutput(path=store.folder, format="jsonl", roll_seconds=0)
    order: list[str] = []
    sync = OutputFiles.sync

    def synced(files: OutputFiles, folder: str) -> None:
        order.append("sync hidden" if "/.ridgeline/" in folder else "sync folder")
        sync(files, folder)

    driver = Driver(store, output, steps)
    monkeypatch.setattr(OutputFiles, "sync", synced)
    steps.each = lambda _number, what: order.append(what.split()[0] + " " + what.split()[-1].split("-")[0])
    driver.window()
    assert order.index("sync hidden") < order.index("commit 0")
    assert order.index("move out") < order.index("sync folder") < order.index("move published")
    assert json.loads(store.manifests[0])["window"] == 0


def test_the_name_of_a_file_whose_driver_died_before_the_marker_is_synced_before_it_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first driver may have died before it synced the name: the marker must not outlive it."""
    steps = Steps(monkeypatch)
    store = Store(tmp_path / "out")
    output = FileOutput(path=store.folder, format="jsonl", roll_seconds=0)
    order: list[str] = []
    sync = OutputFiles.sync

    def dies(_number: int, what: str) -> None:
        if what.startswith("move") and "published-" in what:
            raise KilledError(what)

    def synced(files: OutputFiles, folder: str) -> None:
        order.append("sync hidden" if "/.ridgeline/" in folder else "sync folder")
        sync(files, folder)

    driver = Driver(store, output, steps)
    steps.each = dies
    with pytest.raises(KilledError):
        driver.window()
    monkeypatch.setattr(OutputFiles, "sync", synced)
    steps.each = lambda _number, what: order.append(what.split()[0] + " " + what.split()[-1].split("-")[0])
    Driver(store, output, steps)
    assert visible(store.folder) == store.rows(0)
    assert order.index("sync folder") < order.index("move published")
