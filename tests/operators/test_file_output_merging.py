"""`FileOutput(merge_seconds=...)`: small published files become large ones, whatever dies, whoever reads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow.dataset as ds
import pytest

from ridgeline import Application, RidgelineError, ValidationError
from ridgeline.api.errors import FencedError
from ridgeline.connect.output_files import OutputFiles
from ridgeline.operators import FileOutput
from ridgeline.testing import END_WINDOW, ListInput, run_local
from support.operators.harness import batch
from support.operators.publishing import Driver, KilledError, Steps, Store, read
from support.testing.shares import share

WINDOWS = 9


def files(folder: Path) -> list[Path]:
    return [Path(file) for file in FileOutput.published(folder)]


def visible(folder: Path, known: dict[Path, list[Any]] | None = None) -> list[Any]:
    """All rows; files in `known` are not opened again, since none ever changes."""
    kept = {} if known is None else known
    rows = []
    for file in files(folder):
        if file not in kept:
            kept[file] = read(file)
        rows += kept[file]
    return rows


def output(folder: Path, **properties: Any) -> FileOutput:
    given = {"format": "jsonl", "roll_seconds": 0, "merge_seconds": 3}
    return FileOutput(path=folder, **{**given, **properties})


def run(store: Store, made: FileOutput, steps: Steps | None = None) -> None:
    driver = Driver(store, made, steps)
    while len(store.manifests) < WINDOWS:
        driver.window()
        if len(store.manifests) == WINDOWS - 2:
            store.clock.seconds += 70
            driver.publisher.idle()
    driver.publisher.close()


def look(store: Store, known: dict[Path, list[Any]] | None = None) -> None:
    """All that is committed up to the marker is there, and nothing twice."""
    seen = visible(store.folder, known)
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(store.committed)
    marks = (int(path.name.removeprefix("published-")) for path in store.folder.rglob("published-*"))
    shown = {row for window in range(max(marks, default=-1) + 1) for row in store.rows(window)}
    assert shown <= set(seen)


def check_end(store: Store) -> None:
    look(store)
    assert sorted(visible(store.folder)) == list(range(WINDOWS * store.partitions))
    assert any("-merged" in file.name for file in files(store.folder))
    hidden = [path.name for path in store.folder.rglob(".ridgeline/*/*")]
    assert not [name for name in hidden if name.startswith(("merging-", "replaced-"))]


@pytest.mark.slow
@pytest.mark.parametrize(("format", "partitions", "roll"), [("parquet", 1, 1), ("jsonl", 2, 0)])
def test_a_driver_that_dies_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, partitions: int, roll: float
) -> None:
    steps, died, known = Steps(monkeypatch), set[str](), dict[Path, list[Any]]()
    for survive in range(1000):
        store = Store(tmp_path / str(survive), partitions)
        made = output(store.folder, format=format, roll_seconds=roll)

        def each(number: int, what: str, survive: int = survive, store: Store = store) -> None:
            if number == survive:
                died.add(" ".join(what.split()[:2]))
                raise KilledError(what)
            if number > survive:
                look(store, known)

        steps.number, steps.each = 0, each
        try:
            run(store, made, steps)
        except KilledError:
            look(store)
            run(store, made, steps)
            check_end(store)
        else:
            check_end(store)
            break
    assert {"exchange merging-e1", "move merging-e1", "make_folder merging-e1"} <= died
    assert 50 < survive < 999


@pytest.mark.slow
@pytest.mark.parametrize("second_life", ["start", "window", "whole"])
def test_a_driver_that_is_overtaken_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second_life: str
) -> None:
    steps = Steps(monkeypatch)
    for moment in range(1000):
        store = Store(tmp_path / str(moment))
        made = output(store.folder)

        def each(
            number: int, _what: str, moment: int = moment, store: Store = store, made: FileOutput = made
        ) -> None:
            if number >= moment:
                look(store)
            if number != moment:
                return
            if second_life == "whole":
                run(store, made, steps)
                return
            second = Driver(store, made, steps)
            if second_life == "window" and len(store.manifests) < WINDOWS:
                second.window()

        steps.number, steps.each = 0, each
        with contextlib.suppress(FencedError):
            run(store, made, steps)
        overtaken = store.epoch > 1
        run(store, made, steps)
        check_end(store)
        if not overtaken:
            break
    assert 50 < moment < 999


def test_few_large_files_are_left_by_size_and_by_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "size")
    run(store, output(store.folder, merge_seconds=1000, merge_bytes=25))  # a file has 8 bytes
    assert [len(read(file)) for file in files(store.folder)] == [4, 4, 1]
    store = Store(tmp_path / "time")
    run(store, output(store.folder))
    assert [len(read(file)) for file in files(store.folder)] == [4, 3, 1, 1]


def test_a_reader_meanwhile_sees_each_row_once(tmp_path: Path) -> None:
    """A thread reads again and again; a file that is gone when it is opened means to list again."""
    store, over, found = Store(tmp_path / "out"), threading.Event(), list[str]()
    rounds = [0, 0]

    def reader() -> None:
        before = 0
        while not over.is_set():
            try:
                seen = visible(store.folder)
            except FileNotFoundError:
                rounds[1] += 1
                continue
            if len(seen) < before or sorted(seen) != list(range(len(seen))):
                found.append(f"{before} rows, then {sorted(seen)}")
            before = len(seen)
            rounds[0] += 1

    thread = threading.Thread(target=reader)
    store.folder.mkdir()
    thread.start()
    try:
        driver = Driver(store, output(store.folder, merge_seconds=5))
        for _ in range(150):
            driver.window()
        driver.publisher.close()
    finally:
        over.set()
        thread.join()
    assert not found
    assert rounds[0] > 1, rounds
    assert sorted(visible(store.folder)) == list(range(150))


class Row(NamedTuple):
    n: int
    even: int


def application(folder: Path, **properties: Any) -> Application:
    app = Application("rows", window="1s", windows_kept=100)
    items = [
        item for n in range(0, 60, 3) for item in (*(Row(m, m % 2) for m in (n, n + 1, n + 2)), END_WINDOW)
    ]
    made = output(folder, **properties)
    app.read("source", ListInput(Row, items)).write("out", made)
    return app


@pytest.mark.parametrize(("target", "format"), share(2, [2, 5, 9], ["parquet", "jsonl"]))
def test_a_rewind_to_the_middle_of_a_merged_file(tmp_path: Path, target: int, format: str) -> None:
    out, kept = tmp_path / "out", tmp_path / "c"
    app = application(out, format=format, roll_seconds=1.5, merge_seconds=4)
    run_local(app, windows=13, checkpoint=kept)
    assert any("-merged" in file.name for file in files(out))
    run_local(app, checkpoint=kept, from_window=target)
    assert sorted(visible(out)) == list(range(60))


def test_folders_by_column_as_others_read_them(tmp_path: Path) -> None:
    app = application(tmp_path, format="parquet", partition_by="even")
    run_local(app)
    found = pl.read_parquet(tmp_path / "**/*.parquet", hive_partitioning=True)
    assert sorted(found.select("n", "even").rows()) == [(n, n % 2) for n in range(60)]
    assert ds.dataset(tmp_path, partitioning="hive").count_rows() == 60
    assert len(files(tmp_path)) < 20


def test_merging_begins_and_ends_between_two_runs(tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "c"
    run_local(application(out, merge_seconds=None), windows=5, checkpoint=kept)
    run_local(application(out, partition_by=None), windows=8, checkpoint=kept)
    run_local(application(out, merge_seconds=None), windows=3, checkpoint=kept)
    run_local(application(out), checkpoint=kept)
    assert sorted(visible(out)) == list(range(60))
    run_local(application(out, mode="overwrite"))
    assert sorted(visible(out)) == list(range(60))


def wider(window: Callable[[Any], Any], rows: Any) -> Any:
    return window(batch(n=rows["n"].to_pylist(), more=[1]))


def test_each_merged_file_has_the_same_columns(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    driver = Driver(store, output(store.folder, format="parquet", merge_seconds=10))
    for window in range(6):
        if window == 3:
            [part] = driver.parts
            part.window = partial(wider, part.window)  # type: ignore[method-assign]
        driver.window()
    store.clock.seconds += 10
    driver.publisher.idle()
    assert [read(file) for file in files(store.folder)] == [[0, 1, 2], [3, 4, 5]]
    driver.publisher.close()


def spoilt(folder: Path, spoil: Callable[[list[Path]], object]) -> list[str]:
    """Small files are spoilt before they are merged; the warnings, and all rows are read."""
    store, warnings = Store(folder), list[str]()
    driver = Driver(store, output(folder, format="parquet"))
    driver.publisher._context = driver._context()
    driver.publisher._folders._context = type(
        "Context",
        (),
        {"__getattr__": lambda _, name: getattr(driver._context(), name), "warn": warnings.append},
    )()
    for _ in range(2):
        driver.window()
    spoil(files(folder))
    for _ in range(5):
        driver.window()
    driver.publisher.close()
    return warnings


def test_what_readers_have_changed_stays_as_it_is(tmp_path: Path) -> None:
    [text] = spoilt(tmp_path / "foreign", lambda found: (found[0].parent / "note.txt").write_text("mine"))
    assert "`note.txt` is not of this output" in text
    assert (tmp_path / "foreign").rglob("note.txt")
    [text] = spoilt(tmp_path / "torn", lambda found: found[0].write_bytes(b"PAR1"))
    assert "are not merged" in text
    assert not spoilt(tmp_path / "gone", lambda found: found[0].unlink())
    assert sorted(visible(tmp_path / "gone")) == [1, 2, 3, 4, 5, 6]


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    """Not an empty one: who lists it would take its rows for gone."""
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        FileOutput.published(tmp_path / "file")
    assert FileOutput.published(tmp_path / "none") == []


def test_where_it_cannot_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Application("rows")
    app.read("source", ListInput(Row, [(1, 1)])).write("out", FileOutput("s3://bucket/out", merge_seconds=60))
    with pytest.raises(ValidationError, match=r"`merge_seconds`.*needs a path on a local disk"):
        run_local(app)

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(OutputFiles, "exchange", refuse)
    with pytest.raises(RidgelineError, match=r"cannot.*leave it out, with a larger `roll_seconds`"):
        run_local(application(tmp_path))
