"""Large and hostile tables that become states: memory stays flat, nothing but whole states goes in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.state_tables import measured, prepare, ridgeline, write_keys

from ridgeline import CheckpointError, StateError
from ridgeline.engine.driver.checkpoint.upkeep import filling, keys_twice
from ridgeline.engine.driver.checkpoint.upkeep.contents import runs_of, verify, walk
from ridgeline.engine.driver.checkpoint.upkeep.exporting import export_states
from ridgeline.engine.state import keyed_segments
from ridgeline.testing import run_local
from support.depth import deep
from support.rewound import application
from support.state_tables import imported, partitioned

KEYS = 600_000


@pytest.fixture(autouse=True)
def _private(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_keys(tmp_path: Path) -> None:
    path = prepare(tmp_path)
    most = []
    for keys in (deep(KEYS) // 4, deep(KEYS)):
        write_keys(path, keys)
        cost = measured(
            ridgeline("import-state", "state", "app.py", "--from", "out", "--any-window"), tmp_path
        )
        most.append(cost.megabytes)
        again = tmp_path / f"again{keys}"
        words = "export-state", "state", "--operator", "totals", "--out", str(again)
        measured(ridgeline(*words), tmp_path)
        found = pq.read_table(again / path.name)
        assert np.array_equal(np.sort(found["key"].to_numpy()), np.arange(keys))
        assert found["key"].equals(found["value"])
    assert most[1] - most[0] < 100, most  # 0.5 KB a key were 230 MB


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small states take the way of large ones."""
    monkeypatch.setattr(filling, "_MOST_HELD", 100)
    monkeypatch.setattr(filling, "SEGMENT_KEYS", 50)
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", 50)
    monkeypatch.setattr(keys_twice, "_IN_MEMORY", 64)
    monkeypatch.setattr("ridgeline.engine.driver.checkpoint.upkeep.importing._ROWS", 37)


def _table(keys: list[Any], values: list[Any]) -> pa.Table:
    return pa.table({"key": keys, "value": values})


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_rows_that_come_in_pieces_go_to_all_partitions(tmp_path: Path, partitions: int) -> None:
    made = partitioned(partitions)
    run_local(made, windows=3, checkpoint=tmp_path / "state")
    export_states(str(tmp_path / "state"), tmp_path / "out", ["totals"])
    keys = np.random.default_rng(partitions).permutation(1_000).tolist()
    pq.write_table(_table(keys, [key + 1000 for key in keys]), tmp_path / "out" / "totals.sums.parquet")
    assert imported(made, tmp_path / "state", tmp_path / "out").rows == {"totals.sums": 1_000}
    assert not verify(runs_of(str(tmp_path / "state"))[0]).faults
    export_states(str(tmp_path / "state"), tmp_path / "again", ["totals"])
    found = pq.read_table(tmp_path / "again" / "totals.sums.parquet").sort_by("key")
    assert found["key"].to_pylist() == list(range(1_000))
    assert found["value"].to_pylist() == list(range(1_000, 2_000))
    assert len(set(found["partition"].to_pylist())) == partitions
    totals = run_local(made, windows=1, checkpoint=tmp_path / "state").collected("sink")
    assert min(total for _, total in totals) > 1_000


@pytest.mark.usefixtures("in_pieces")
def test_keys_that_are_there_twice_far_apart_are_named(tmp_path: Path) -> None:
    run_local(application(), windows=3, checkpoint=tmp_path / "state")
    export_states(str(tmp_path / "state"), tmp_path / "out", ["totals"])
    before = walk(str(tmp_path / "state"))
    keys = list(range(1_000))
    keys[900], keys[901] = 5, -2
    keys[7] = -1  # its hash is that of -2
    pq.write_table(_table(keys, keys), tmp_path / "out" / "totals.sums.parquet")
    with pytest.raises(StateError, match=r": row 901: the key 5 is in row 6, too; nothing was changed"):
        imported(application(), tmp_path / "state", tmp_path / "out")
    pq.write_table(_table([3] * 1_000, keys), tmp_path / "out" / "totals.sums.parquet")
    with pytest.raises(StateError, match=r"row 2: the key 3 is in row 1, too; .*; and 989 more"):
        imported(application(), tmp_path / "state", tmp_path / "out")
    assert walk(str(tmp_path / "state")) == before


@pytest.mark.usefixtures("in_pieces")
def test_keys_with_the_hash_of_another_do_not_hide_one_that_is_there_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_twice, "_AT_LEAST", 20)
    run_local(application(), windows=3, checkpoint=tmp_path / "state")
    export_states(str(tmp_path / "state"), tmp_path / "out", ["totals"])
    before = walk(str(tmp_path / "state"))
    modulus = sys.hash_info.modulus  # whole numbers this far apart have one hash
    keys = [key for small in range(500) for key in (small, small + modulus)]
    for twice in (0, 499, 250 + modulus):
        given = [*keys, twice]
        pq.write_table(_table(given, [0] * len(given)), tmp_path / "out" / "totals.sums.parquet")
        first = keys.index(twice) + 1
        with pytest.raises(StateError, match=f": row 1001: the key {twice} is in row {first}, too; nothing"):
            imported(application(), tmp_path / "state", tmp_path / "out")
    assert walk(str(tmp_path / "state")) == before
    pq.write_table(_table(keys, keys), tmp_path / "out" / "totals.sums.parquet")
    assert imported(application(), tmp_path / "state", tmp_path / "out").rows == {"totals.sums": 1_000}


@pytest.mark.usefixtures("in_pieces")
def test_a_table_that_is_cut_or_damaged_anywhere_changes_nothing(tmp_path: Path) -> None:
    run_local(application(), windows=3, checkpoint=tmp_path / "state")
    export_states(str(tmp_path / "state"), tmp_path / "out", ["totals"])
    path = tmp_path / "out" / "totals.sums.parquet"
    pq.write_table(
        _table([*range(1_000)], [*range(1_000)]), path, row_group_size=100, write_page_checksum=True
    )
    whole, before = path.read_bytes(), walk(str(tmp_path / "state"))
    chance = np.random.default_rng(1)
    refused = 0
    for number in range(40):
        data = bytearray(whole)
        at = int(chance.integers(len(data)))
        if number % 2:
            del data[at:]
        else:
            data[at] ^= 0xFF
        path.write_bytes(bytes(data))
        try:
            imported(application(), tmp_path / "state", tmp_path / "out", step=_stop)
        except (StateError, CheckpointError):
            refused += 1
        except _StoppedError:
            pass  # a byte that says nothing
        assert walk(str(tmp_path / "state")) == before
    assert refused >= 30


def test_a_table_that_is_replaced_after_it_was_checked_is_not_taken(tmp_path: Path) -> None:
    run_local(application(), windows=3, checkpoint=tmp_path / "state")
    export_states(str(tmp_path / "state"), tmp_path / "out", ["totals"])
    path, [run] = tmp_path / "out" / "totals.sums.parquet", runs_of(str(tmp_path / "state"))
    for keys, replaces in [([1, 1, 2], False), ([9], False), ([4, 5, 6], True)]:
        pq.write_table(_table([1, 2, 3], [1, 2, 3]), path)
        pq.write_table(_table(keys, keys), other := tmp_path / "other")

        def swap(name: str, other: Path = other, replaces: bool = replaces) -> None:
            if name == "write totals":
                other.replace(path) if replaces else path.write_bytes(other.read_bytes())

        with pytest.raises(CheckpointError, match=r"of `totals\.sums`, was written while it was read"):
            imported(application(), tmp_path / "state", tmp_path / "out", step=swap)
        assert run.kept()[0].window_id == 2
        assert not verify(run).faults


class _StoppedError(Exception):
    pass


def _stop(name: str) -> None:
    if name == "own the checkpoint":
        raise _StoppedError


@pytest.mark.slow
def test_an_import_of_many_keys_that_is_killed_leaves_the_state_as_it_was(tmp_path: Path) -> None:
    path = prepare(tmp_path)
    write_keys(path, 200_000)
    words = ridgeline("import-state", "state", "app.py", "--from", "out")
    for number in range(deep(3)):
        process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        began = [one for one in walk(str(tmp_path / "state")) if "segment" in one]
        while process.poll() is None:
            if [one for one in walk(str(tmp_path / "state")) if "segment" in one and one not in began]:
                process.kill()  # its first segment, or that of the next try
        process.wait()
        [run] = runs_of(str(tmp_path / "state"))
        assert run.kept()[0].window_id == 2, number
        assert not verify(run).faults
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    code = "import app; app.run_local(app.application(), windows=2, checkpoint='state')"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
