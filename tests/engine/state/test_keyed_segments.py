from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from ridgeline import KeyedState, StateError
from ridgeline.engine.state import keyed_segments, segment_compaction
from ridgeline.engine.state.keyed_segment import Segment
from ridgeline.engine.state.keyed_segments import compact
from support.engine.run_folder import RunFolder


class Range(NamedTuple):
    high: int
    low: int


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", 4)
    monkeypatch.setattr(segment_compaction, "_CHUNK_KEYS", 16)
    monkeypatch.setattr(keyed_segments, "_CHUNK", 16)


@pytest.fixture
def folder():
    return RunFolder()


def held(folder, items, kind=object, **options):
    """A cell that holds these items in a segment."""
    cell = KeyedState(kind, **options).cell()
    cell.begin(0)
    cell.update(items)
    folder.reattach(cell)
    cell.begin(1)
    return cell


def texts(items):
    return sorted(map(repr, items))


COLUMNS = {
    "int": list(range(-20, 20)),
    "bool and int": [*range(2, 20), False, True],
    "large int": [2**70 + number for number in range(20)],
    "float": [0.5, -0.0, float("inf"), 1e300, *map(float, range(1, 20))],
    "str": ["", "ä", "a\0", *(f"key {number}" for number in range(30))],
    "half characters": ["\ud800", *(f"key {number}" for number in range(30))],
    "bytes": [b"", b"\0", *(bytes([number]) * number for number in range(1, 30))],
    "date": [date(2026, 1, day) for day in range(1, 30)],
    "decimal": [Decimal(number) / 7 for number in range(20)],
    "tuples of one form": [(number, f"{number}", 0.5, b"", number > 5) for number in range(20)],
    "tuples of several forms": [(), (1,), (1, 2), ("a", None), ((1, 2), 3), (2**70,)],
    "named tuples": [Range(number, 0) for number in range(20)],
    "mixed": [None, 1, "1", b"1", (1,), 2.5, 1e300],
}


@pytest.mark.parametrize("keys", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_keys_and_values_of_any_type_come_back(folder, keys, values):
    values = [values[place % len(values)] for place in range(len(keys))]
    cell = held(folder, zip(keys, values, strict=True))
    assert texts(cell.items()) == texts(zip(keys, values, strict=True))
    assert [repr(cell[key]) for key in keys] == [repr(value) for value in values]
    assert repr(cell.get_many(keys).tolist()) == repr(values)
    assert all(key in cell for key in keys)
    assert cell.get("no such key") is None
    assert len(cell) == len(keys)


@pytest.mark.parametrize(("kind", "dtype"), [(int, np.int64), (float, np.float64), (bool, np.bool_)])
@pytest.mark.parametrize("keys", [list(range(40)), [f"{number}" for number in range(40)]], ids=["int", "str"])
def test_arrays_come_out_of_runs_and_of_what_changed_since(folder, kind, dtype, keys):
    cell = held(folder, {key: kind(place % 3) for place, key in enumerate(keys)}, kind, default=kind(1))
    cell[keys[5]] = kind(0)
    del cell[keys[6]]
    cell[float("nan")] = kind(0)
    expected = [kind(place % 3) for place in range(40)] + [kind(1)]
    expected[5], expected[6] = kind(0), kind(1)
    wanted = [*keys, type(keys[0])(1000)]
    assert cell.get_many(np.array([float("nan"), 1e9])).tolist() == [kind(0), kind(1)]
    for asked in (wanted, np.array(wanted), iter(wanted)):
        got = cell.get_many(asked)
        assert (got.dtype, got.tolist()) == (dtype, expected)
    assert cell.get_many([]).tolist() == []


def test_what_is_read_is_not_kept(folder):
    cell = held(folder, {number: [number] for number in range(40)})
    assert cell[3] == [3]
    assert cell[3] is cell[3]
    assert any(value is cell[3] for value in cell.values())
    assert cell.changes() is None
    cell.begin(2)
    assert cell.held().values == {}
    cell[3].append(4)
    assert cell.changes() == (False, 2, {3: [3, 4]}, [])


def test_a_window_begins_without_a_search_in_the_runs(folder, monkeypatch):
    cell = held(folder, {number: number for number in range(40)}, int, default=0)
    cell.put_many(range(30, 50), range(20))

    def search(*_arguments):
        pytest.fail("what was set was looked up")

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "places_of", search)
        cell.begin(2)
        assert cell
    assert len(cell) == 50
    cell.clear()
    assert not cell


def test_a_small_cell_stays_a_dict(folder):
    cell = KeyedState(int).cell()
    cell.begin(0)
    cell.put_many(range(3), range(3))
    assert compact(cell, folder.write) is None
    cell[3] = 3
    assert folder.reattach(cell).names == ("segment0",)
    del cell[0], cell[1]
    assert folder.reattach(cell).names == ("segment1",)
    del cell[2]
    assert compact(cell, folder.write) is None
    assert cell.snapshot() == (True, 0, {3: 3}, [0, 1, 2, 3])
    assert len(folder.written) == 2


@pytest.mark.parametrize("key", [frozenset({1}), float("nan"), ("a", float("nan"))])
def test_a_key_without_a_stable_hash_keeps_the_cell_in_memory(folder, key):
    cell = held(folder, {number: number for number in range(40)}, int)
    assert key not in cell
    assert cell.get(key) is None
    assert cell.pop(key, None) is None
    assert not cell._data.base.has_many([key, 50, "a"]).any()
    cell[key] = 1
    assert cell[key] == 1
    assert len(cell) == 41
    assert compact(cell, folder.write) is None
    assert len(cell.snapshot()[2]) == 41


def test_a_key_of_the_second_hour_that_comes_twice_finds_what_it_is_equal_to(folder):
    night = datetime(2026, 10, 25, tzinfo=ZoneInfo("Europe/Berlin"))
    cell = held(folder, {("a", night.replace(hour=hour)): hour for hour in range(6)})
    second = "a", night.replace(hour=2, fold=1)
    assert second in cell
    assert cell[second] == 2
    assert cell.get_many([second, ("a", night)]).tolist() == [2, 0]
    assert ("a", frozenset()) not in cell
    cell[second] = 7
    assert len(cell) == len(dict(cell)) == 6
    assert cell["a", night.replace(hour=2)] == 7


@pytest.mark.parametrize("kind", [Fraction, complex])
def test_a_number_finds_the_plain_one_that_it_is_equal_to(folder, kind):
    cell = held(folder, {number / 2: number for number in range(40)})
    assert cell.get_many([kind(2), kind(3.5)]).tolist() == [4, 7]
    assert kind(1) in cell
    assert kind(50) not in cell
    cell[kind(2)] = 9
    assert len(cell) == len(dict(cell)) == 40
    assert cell[2] == 9


def test_nothing_is_written_if_nothing_changed(folder):
    cell = held(folder, {number: number for number in range(40)}, int)
    assert compact(cell, folder.write)[:3] == (1, ("segment0",), [])
    assert folder.written == ["segment0"]


def test_small_runs_are_merged_into_larger_ones_and_removed_keys_vanish_with_the_oldest(folder):
    cell = held(folder, {number: number for number in range(1_000)}, int)
    model = {number: number for number in range(1_000)}
    most, written = 0, 0
    for window in range(2, 100):
        for key in range(window * 10, window * 10 + 10):
            cell[key] = model[key] = -window
            cell.pop(key - 15, None)
            model.pop(key - 15, None)
        change = folder.reattach(cell)
        cell.begin(window)
        most = max(most, len(change.names))
        written += Segment(folder.files[change.names[-1]], change.names[-1]).keys
        assert len(cell) == len(model)
    assert texts(cell.items()) == texts(model.items())
    assert 2 <= most <= 5
    assert written < 98 * 1_000 / 4
    cell.put_many(range(2_000, 3_000), range(1_000))
    assert folder.open(folder.reattach(cell).names).segments[0].keys == len(cell) == len(model) + 1_000


def test_a_cell_that_was_cleared_has_new_segments(folder):
    cell = held(folder, {number: number for number in range(40)}, int)
    cell.clear()
    assert (len(cell), list(cell.items()), cell.get(3)) == (0, [], None)
    cell.put_many([3, 2, 1, 0], [0] * 4)
    values, removed = cell.changes()[2:]
    assert (values, set(removed)) == ({3: 0, 2: 0, 1: 0, 0: 0}, set(range(40)))
    assert folder.reattach(cell).names == ("segment1",)
    assert set(cell) == {0, 1, 2, 3}


def test_a_change_of_size_during_iteration_is_refused_as_in_a_dict(folder):
    cell = held(folder, {number: number for number in range(40)}, int)
    for key in cell:
        cell[key] += 1
    with pytest.raises(RuntimeError, match=r"^keyed state changed size during iteration$"):
        cell.update((key + 1_000, 1) for key in cell)


def test_files_are_written_in_small_pieces(folder):
    pieces = []

    def write(stream):
        def noted(name):
            pieces.extend(stream(name))
            return pieces

        return folder.write(noted)

    cell = KeyedState(str).cell()
    cell.begin(0)
    cell.put_many(range(1_000), ["x" * 100] * 1_000)
    change = compact(cell, write)
    assert max(map(len, pieces)) < 8_200 < sum(map(len, pieces))
    assert folder.open(change.names).find(999, None) == "x" * 100


@pytest.fixture(scope="module")
def file():
    cell = KeyedState(str).cell()
    cell.begin(0)
    cell.put_many([f"key {number}" for number in range(40)], map(str, range(40)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed_segments, "SEGMENT_KEYS", 4)
        files = RunFolder()
        compact(cell, files.write)
    return files.files["segment0"]


@pytest.mark.parametrize("size", [0, 3, 8, 20, 32, 200, -100, -8, -1])
def test_a_truncated_file_is_named(file, size):
    what = r"its end is missing|it is no file of keyed state"
    with pytest.raises(
        StateError,
        match=rf"^state file `a/segment0` is corrupt \(\d+ bytes, ({what})\); restore it from a copy$",
    ):
        Segment(file[:size], "a/segment0")


def test_a_damaged_file_is_named(file):
    Segment(file, "a/segment0")
    for place in range(0, len(file), 7):
        damaged = bytearray(file)
        damaged[place] ^= 4
        with pytest.raises(StateError, match=r"^state file `a/segment0` is corrupt "):
            Segment(damaged, "a/segment0")


def test_a_clear_that_comes_as_a_change_leaves_the_runs_too(folder):
    here = held(folder, {number: number for number in range(40)}, int)
    there = KeyedState(int).cell()
    there.attach(folder.open(("segment0",)), 0, [])
    here.clear()
    here[3] = 5
    there.apply(here.changes())
    assert list(here.items()) == list(there.items()) == [(3, 5)]
    assert there.held().base is None


def test_numbers_that_came_in_arrays_are_read_one_by_one_and_may_grow_beyond_64_bits(folder):
    cell = held(folder, {number: number for number in range(40)}, int, default=0)
    keys = np.arange(30, 2_000)
    cell.put_many(keys, keys + 1)
    assert [cell[key] for key in (3, 30, 1_999, 2_000, 30.0)] == [3, 31, 2_000, 0, 31]
    assert all(cell[key] == key + 1 for key in keys.tolist())  # so many that they are in a dict by now
    change = cell.changes()
    other = held(folder, {number: number for number in range(40)}, int, default=0)
    other.apply(change)
    cell.begin(2)
    cell[5] = 2**70
    cell.put_many(keys, keys)
    other.apply(cell.changes())
    assert texts(other.items()) == texts(cell.items())
    assert other[5] == 2**70
    assert len(other) == 2_000
