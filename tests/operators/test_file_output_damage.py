"""Output folders that are missing, older, newer or damaged when a run goes on: printed, or right."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ridgeline.api import RidgelineError
from ridgeline.operators import FileOutput
from support.operators.harness import Driven, Published, batch
from support.operators.publishing import Driver, Store, visible
from support.testing.shares import share

WAIT = 1e6


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "out", partitions=2)


def waiting(store: Store, format: str = "jsonl", *, windows: int = 6, published: int = 3) -> FileOutput:
    """A driver that died: of six windows three are published, and three wait."""
    driver = Driver(store, FileOutput(path=store.folder, format=format, roll_seconds=WAIT))
    for window in range(windows):
        if window == published:
            driver.publisher.close()
        driver.window()
    return FileOutput(path=store.folder, format=format, roll_seconds=WAIT)


def go_on(store: Store, output: FileOutput) -> list[int]:
    """The rows that readers see after another start, a window and an orderly end."""
    driver = Driver(store, output)
    driver.window()
    driver.publisher.close()
    return sorted(visible(store.folder))


def hidden(store: Store) -> Path:
    return store.folder / ".ridgeline" / "out-run1"


UNPUBLISHED = "rows of windows 3 to 5 were not published; "


def test_a_folder_that_is_not_mounted_is_reported_and_nothing_is_lost(store: Store) -> None:
    output = waiting(store)
    elsewhere = store.folder.rename(store.folder.with_name("elsewhere"))
    give_up = f"create the empty file `{hidden(store)}/published-5`"
    words = (
        f"`out`: output folder `{store.folder}` is missing; .*{UNPUBLISHED}mount or restore it.*{give_up}$"
    )
    with pytest.raises(RidgelineError, match=words):
        go_on(store, output)
    assert not store.folder.exists()
    elsewhere.rename(store.folder)
    assert go_on(store, output) == store.committed


def empty_mount_point(store: Store) -> None:
    for path in store.folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def no_hidden_folder(store: Store) -> None:
    shutil.rmtree(store.folder / ".ridgeline")


def no_folder_of_the_run(store: Store) -> None:
    shutil.rmtree(hidden(store))


def no_marker(store: Store) -> None:
    (hidden(store) / "published-2").unlink()


@pytest.mark.parametrize("harm", [empty_mount_point, no_hidden_folder, no_folder_of_the_run, no_marker])
def test_a_folder_that_is_not_the_one_that_was_written_to_is_reported(
    store: Store, harm: Callable[[Store], None]
) -> None:
    output = waiting(store)
    harm(store)
    words = f"has nothing of this run .*published-.*the wrong folder, or not mounted; .*{UNPUBLISHED}mount or"
    with pytest.raises(RidgelineError, match=words):
        go_on(store, output)


def test_an_empty_folder_is_reported_also_when_all_was_published_before_an_orderly_end(store: Store) -> None:
    output = FileOutput(path=store.folder, format="jsonl")
    driver = Driver(store, output)
    driver.window()
    driver.window()
    driver.publisher.close()
    assert go_on(store, output) == store.committed
    shutil.rmtree(store.folder)
    with pytest.raises(RidgelineError, match=r"is missing; .*window 2 were not published; mount or restore"):
        go_on(store, output)
    hidden(store).mkdir(parents=True)
    (hidden(store) / "published-2").touch()
    assert go_on(store, output) == store.rows(3)


def test_a_folder_that_goes_while_the_run_goes_on_is_reported_and_not_made_anew(store: Store) -> None:
    driver = Driver(store, FileOutput(path=store.folder, format="jsonl", roll_seconds=WAIT))
    driver.window()
    elsewhere = store.folder.rename(store.folder.with_name("elsewhere"))
    with pytest.raises(RidgelineError, match=r"its folder, or a file .*, is missing .*; mount it again"):
        driver.window()
    with pytest.raises(RidgelineError, match=r"is missing; .*window 0 were not published; mount"):
        driver.publisher.close()
    assert not store.folder.exists()
    elsewhere.rename(store.folder)
    assert go_on(store, FileOutput(path=store.folder, format="jsonl")) == store.committed


def test_a_segment_that_is_missing_or_cut_is_reported_at_the_start(store: Store) -> None:
    output = waiting(store)
    segment = next(hidden(store).glob("w0000000004-p1-*"))
    data = segment.read_bytes()
    segment.unlink()
    give_up = f"create the empty file `{hidden(store)}/published-5`"
    words = f"`{segment}`, committed rows of window 4, is damaged: it is missing; .*{UNPUBLISHED}.*{give_up}"
    with pytest.raises(RidgelineError, match=words):
        go_on(store, output)
    segment.write_bytes(data[:-1])
    sizes = f"it has {len(data) - 1} bytes, it was written with {len(data)}; "
    with pytest.raises(RidgelineError, match=sizes):
        go_on(store, output)
    segment.write_bytes(data)
    assert go_on(store, output) == store.committed


@pytest.mark.parametrize(("windows", "format"), share(2, [3, 5], ["parquet", "jsonl"]))
def test_a_segment_of_other_bytes_is_never_published(store: Store, format: str, windows: int) -> None:
    output = waiting(store, format, windows=windows, published=windows - 1)
    segment = next(hidden(store).glob(f"w{windows - 1:010d}-p1-*"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    before = visible(store.folder)
    with pytest.raises(RidgelineError, match=rf"rows of window {windows - 1}, is damaged: the checksum of"):
        go_on(store, output)
    assert visible(store.folder) == before


def test_an_older_checkpoint_with_a_newer_output_folder_is_reported(store: Store) -> None:
    output = waiting(store)
    older = list(store.manifests)
    Driver(store, output).publisher.close()
    del store.manifests[3:]
    words = (
        "window 5 of this run is published, window 2 is committed; restore the newer checkpoint .*or start"
    )
    with pytest.raises(RidgelineError, match=f"is newer than the checkpoint .*{words}"):
        go_on(store, output)
    store.manifests[:] = []
    with pytest.raises(RidgelineError, match="window 5 of this run is published, no window is committed; "):
        go_on(store, output)
    store.manifests[:] = older
    assert go_on(store, output) == store.committed


def test_an_older_output_folder_with_a_newer_checkpoint_is_reported(store: Store, tmp_path: Path) -> None:
    driver = Driver(store, FileOutput(path=store.folder, format="jsonl", roll_seconds=WAIT))
    driver.window()
    shutil.copytree(store.folder, tmp_path / "older")
    driver.publisher.close()
    driver.window()
    shutil.rmtree(store.folder)
    (tmp_path / "older").rename(store.folder)
    words = (
        "is older than the checkpoint; windows up to 0 were published, its marker is at -1; restore the newer"
    )
    with pytest.raises(RidgelineError, match=words):
        go_on(store, FileOutput(path=store.folder, format="jsonl", roll_seconds=WAIT))


def test_a_new_checkpoint_on_the_folder_of_another_run_is_reported(tmp_path: Path) -> None:
    output = FileOutput(path=tmp_path / "out", format="jsonl", roll_seconds=WAIT)
    first, part = Published(output, tmp_path, run_id="11111111"), Driven(output, run_id="11111111")
    first.commit(0, part.window(batch(n=[1]))[1])
    printed = Published(output, tmp_path, run_id="22222222").text.getvalue()
    assert "another run, `under_test-11111111`, with 1 unpublished segments; start that run's" in printed
    first.publisher.close()
    printed = Published(output, tmp_path, run_id="33333333").text.getvalue()
    assert "another run, `under_test-11111111`; this run has a new checkpoint, so it adds" in printed
    assert Published(output, tmp_path, name="other", run_id="44444444").text.getvalue() == ""


HARMS = ["flipped", "first flipped", "cut", "emptied", "zeroed", "longer", "swapped"]
HARMS += ["copied over", "deleted", "older", "folder", "link"]


def kinds(store: Store) -> dict[str, list[Path]]:
    """The files and folders of an output, by what they are; published files are their reader's."""
    return {
        "segment": sorted(hidden(store).glob("*.segment")),
        "marker": sorted(hidden(store).glob("published-*")),
        "merged": sorted(hidden(store).glob("merged*")),
        "decision": sorted(hidden(store).glob("rolling-*")),
    }


def changed(data: bytes, harm: str, other: bytes) -> bytes:
    middle = len(data) // 2
    return {
        "flipped": data[:middle]
        + bytes(byte ^ 0x10 for byte in data[middle : middle + 1])
        + data[middle + 1 :],
        "first flipped": bytes(byte ^ 0x80 for byte in data[:1]) + data[1:],
        "cut": data[:middle],
        "emptied": b"",
        "zeroed": bytes(len(data)),
        "longer": data + b'{"n": 99}\n',
        "swapped": other,
        "copied over": other,
        "older": b'{"n": 77}\n',
    }[harm]


def do_harm(path: Path, harm: str, other: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    if harm == "folder":
        path.mkdir()
    elif harm == "link":
        path.symlink_to(other)
    elif harm != "deleted":
        path.write_bytes(changed(data, harm, other.read_bytes()))
    if harm == "swapped":
        other.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "kind", "partitions", "format"),
    share(2, HARMS, ["segment", "marker", "merged", "decision"], [1, 2], ["parquet", "jsonl"]),
)
def test_whatever_is_damaged_the_rows_are_right_or_it_is_reported(
    tmp_path: Path, format: str, partitions: int, kind: str, harm: str
) -> None:
    """192 kinds of damage, each to every file of its kind."""
    for number in range(10):
        store = Store(tmp_path / f"out{number}", partitions)
        output = waiting(store, format)
        (hidden(store) / "merged-e1.tmp").write_bytes(b"half a fi")
        (hidden(store) / "rolling-5").touch()
        found = kinds(store)
        if number >= len(found[kind]):
            break
        others = [path for paths in found.values() for path in paths if path != found[kind][number]]
        do_harm(found[kind][number], harm, others[number % len(others)])
        before = visible(store.folder)
        printed = None
        try:
            rows = go_on(store, output)
        except RidgelineError as error:
            printed = str(error)
        assert (
            rows == store.committed
            if printed is None
            else "`out`" in printed and "; " in printed and visible(store.folder) == before
        )
    assert number
