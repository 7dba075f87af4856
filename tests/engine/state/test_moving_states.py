"""How states move that are no keyed ones, what cannot move, and what becomes of the files."""

from datetime import timedelta
from unittest.mock import patch

import pytest

from ridgeline import StateError
from ridgeline.api.codec import stable_hash
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.api.state import ENDED, METRICS, WATERMARK
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.state import keyed_segments, state_files
from ridgeline.engine.state.keyed_segment import both, either
from support.engine.moves import Accounts, Moved, Uneven, partitions_of


@pytest.fixture
def moved(tmp_path, monkeypatch):
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", 20)
    monkeypatch.setattr("os.fsync", lambda _file: None)
    return Moved(LocalStorage(str(tmp_path)), partitions_of(2))


def change(moved, partition, **values):
    moved.window += 1
    cells = moved.cells(partition)
    for cell in cells.values():
        cell.begin(moved.window)
    for given, value in values.items():
        name = {"watermark": WATERMARK, "ended": ENDED, "metrics": METRICS}.get(given, given)
        if name == "recent":
            cells[name].extend(value)
        elif isinstance(value, dict):
            cells[name].update(value)
        else:
            cells[name].set(value)
    moved.commit(partition, cells)


def own(partition, partitions, keys):
    return {key: key for key in keys if stable_hash(key) % partitions == partition}


def hold(moved, number=200):
    """Both partitions hold keys, in segments."""
    for partition in range(2):
        change(moved, partition, totals=own(partition, 2, range(number)))
        moved.compact(partition)


def test_no_segment_is_written_or_copied_for_a_move(moved, tmp_path):
    hold(moved)
    before = {one.name for one in (tmp_path / "state").iterdir()}
    segments = {name for name in before if state_files.is_segment(name)}
    moved.repartition(partitions_of(4))
    after = {one.name for one in (tmp_path / "state").iterdir()}
    assert {name for name in after if state_files.is_segment(name)} == segments
    assert not any(moved.cells(one)["totals"].held().base.whole for one in range(4))
    assert {name for version in moved.versions.values() for name in version} >= segments


def test_a_compaction_leaves_out_what_others_have(moved):
    hold(moved)
    moved.repartition(partitions_of(3))
    shared = {name for version in moved.versions.values() for name in version if state_files.is_segment(name)}
    for partition in range(3):
        before = dict(moved.cells(partition)["totals"])
        moved.compact(partition)
        cell = moved.cells(partition)["totals"]
        assert dict(cell) == before
        [segment] = cell.held().base.segments
        assert segment.keys == segment.live == len(cell)
    left = {name for version in moved.versions.values() for name in version}
    assert not left & shared


def test_states_are_divided_as_they_say(tmp_path):
    moved = Moved(LocalStorage(str(tmp_path)), partitions_of(2, Uneven()))
    change(moved, 0, seen=3, recent=[1, 2])
    change(moved, 1, seen=4, recent=[3])
    moved.repartition(partitions_of(3, Uneven()))
    assert [moved.cells(one)["seen"].get() for one in range(3)] == [7, 0, 0]
    assert [list(moved.cells(one)["recent"]) for one in range(3)] == [[1, 2, 3], [], []]


def moves_of(monkeypatch, state, function):
    """Have a state of the operator move by a function."""
    monkeypatch.setattr(operator_type(Accounts).states[state], "moves", function)


def test_a_partition_that_holds_nothing_counts_with_its_default(tmp_path, monkeypatch):
    moved, given = Moved(LocalStorage(str(tmp_path)), partitions_of(2, Uneven())), []
    moves_of(monkeypatch, "seen", lambda values, partitions: given.append(values) or [9] * partitions)
    change(moved, 1, seen=4, watermark=(5, 5), ended=True)
    moved.repartition(partitions_of(1, Uneven()))
    assert given == [[0, 4]]
    cells = moved.cells(0)
    assert cells["seen"].get() == 9
    assert (cells[WATERMARK].get(), cells[ENDED].get()) == (None, None)


def test_platform_states(moved):
    change(moved, 0, watermark=(5, 3), ended=True, metrics=(1,))
    change(moved, 1, watermark=(4, 4), ended=True)
    moved.repartition(partitions_of(3))
    for partition in range(3):
        cells = moved.cells(partition)
        assert cells[WATERMARK].get() == (4, 3)
        assert cells[ENDED].get() is True
        assert cells[METRICS].get() is None


def raising(_values, _partitions):
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("state", "moves", "value", "reason"),
    [
        ("unsaid", None, 3, "nothing says how; declare the state with `moves` or `moves_by`"),
        ("seen", raising, 3, "its `moves` raised .*no such thing"),
        ("seen", lambda values, _partitions: values[:1], 3, "was given 1 parts for 3 partitions"),
        ("recent", lambda _values, number: ["text"] * number, [3], "cannot hold what it would get: .*'t'"),
    ],
)
def test_states_that_do_not_say_how_they_are_divided(tmp_path, monkeypatch, state, moves, value, reason):
    moved = Moved(LocalStorage(str(tmp_path)), partitions_of(2))
    moves_of(monkeypatch, state, moves)
    change(moved, 1, **{state: value})
    files = set((tmp_path / "state").iterdir())
    with pytest.raises(StateError, match=f"state `{state}` of operator `accounts` .*{reason}"):
        moved.repartition(partitions_of(3))
    assert set((tmp_path / "state").iterdir()) == files


@pytest.mark.parametrize("compact", [False, True])
def test_keys_that_are_not_the_ports(moved, compact):
    change(moved, 0, totals=dict.fromkeys(range(50), 1))
    if compact:
        moved.compact(0)
    with pytest.raises(StateError, match=r"partition 0 holds the key .*not kept by the key"):
        moved.repartition(partitions_of(3))


@pytest.mark.parametrize("compact", [False, True])
def test_one_key_in_two_partitions(tmp_path, monkeypatch, compact):
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", 20)
    moved = Moved(LocalStorage(str(tmp_path)), partitions_of(2, Uneven()))
    for partition in range(2):
        change(moved, partition, totals={key + 30 * partition: 1 for key in range(50)})
        if compact:
            moved.compact(partition)
    moved.known = False
    with pytest.raises(StateError, match="several partitions hold the key"):
        moved.repartition(partitions_of(3, Uneven()))


@pytest.mark.parametrize("compact", [False, True])
def test_keys_that_no_port_can_have(tmp_path, monkeypatch, compact):
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", 20)
    moved = Moved(LocalStorage(str(tmp_path)), partitions_of(1))
    change(moved, 0, totals={timedelta(key): 1 for key in range(50)})
    if compact:
        moved.compact(0)
    with pytest.raises(StateError, match="it has a key that no port can have: a timedelta cannot be a key"):
        moved.repartition(partitions_of(2))


def test_timers_with_keys_that_no_port_can_have(tmp_path):
    moved = Moved(LocalStorage(str(tmp_path)), partitions_of(2, Uneven()))
    cells = moved.cells(0)
    moved.window += 1
    for cell in cells.values():
        cell.begin(moved.window)
    cells["alarms"].begin_window(moved.window)
    cells["alarms"].put(timedelta(1), 1)
    moved.commit(0, cells)
    moved.known = False  # so they get new numbers
    with pytest.raises(StateError, match=r"`alarms` .* it has a key that no port can have: a timedelta"):
        moved.repartition(partitions_of(3, Uneven()))


def test_a_segment_that_is_damaged_is_named_and_nothing_moves(moved, tmp_path):
    hold(moved)
    [segment] = state_files.segments_of(next(iter(moved.versions.values())))
    path = tmp_path / "state" / segment
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    moved.files = type(moved.files)(moved.storage, "run")
    with pytest.raises(StateError, match=f"{segment}.*corrupt"):
        moved.repartition(partitions_of(4))
    path.unlink()
    moved.files = type(moved.files)(moved.storage, "run")
    with pytest.raises(StateError, match=f"{segment}.*missing"):
        moved.repartition(partitions_of(4))


@pytest.mark.parametrize("at", range(4))
def test_a_full_disk_leaves_the_old_states(moved, at):
    hold(moved)
    before = dict(moved.versions)
    write, calls = moved.storage.write, []

    def full(name, data):
        calls.append(name)
        if len(calls) > at:
            raise OSError(28, "No space left on device")
        write(name, data)

    with patch.object(moved.storage, "write", full), pytest.raises(OSError, match="No space"):
        moved.repartition(partitions_of(4))
    assert moved.versions == before
    assert dict(moved.cells(0)["totals"]) == own(0, 2, range(200))
    moved.repartition(partitions_of(4))
    assert sum(len(moved.cells(one)["totals"]) for one in range(4)) == 200


@pytest.mark.parametrize("masks", [(1, 3), (0b1010, 0b0110), (0, 7), (4, 4)])
def test_keys_of_both_and_of_either(masks):
    for seed in range(20):
        one, other = (
            PartitionKeys(mask, frozenset(v & mask for v in range(16) if stable_hash((seed, v & mask)) & 1))
            for mask in masks
        )
        for value in range(32):
            inside = [value & each.mask in each.keys for each in (one, other)]
            meet, join = both(one, other), either(one, other)
            assert (value & meet.mask in meet.keys) == all(inside)
            assert (value & join.mask in join.keys) == any(inside)
    assert both(None, one) == both(one, None) == one
    assert either(None, one) is None
