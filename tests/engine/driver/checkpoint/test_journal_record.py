"""Records of the journal as bytes: cut, damaged, misplaced, torn."""

import json
import math
import struct
import zlib
from dataclasses import replace

import pytest

from ridgeline import CheckpointError
from ridgeline.engine.driver.checkpoint.journal_record import (
    FORMAT,
    Place,
    decode,
    difference,
    encode,
    patched,
)
from ridgeline.engine.driver.checkpoint.manifest import Manifest, SourceOffsets


def written(records, run_id="run", segment=3):
    """The bytes of a file with these records, and the places after each."""
    data, place, places = b"", Place(segment), []
    for changes, content in records:
        record, place = encode(run_id, place, changes, content)
        data += record
        places.append(place)
    return data, places


def read(data, run_id="run", segment=3, synced=0):
    return list(decode(run_id, segment, data, "here", synced))


RECORDS = [
    (bytes(range(1, 256)) * 3, {"window": 0}),
    (b"", {"window": 1}),
    (b"abc", {"window": 2, "ü": [1.5]}),
]
DATA, PLACES = written(RECORDS)
ENDS = [place.offset for place in PLACES]


def whole(length):
    """How many records end within so many bytes."""
    return sum(end <= length for end in ENDS)


@pytest.mark.parametrize("tail", [b"", bytes(1), bytes(600)])
def test_a_file_that_ends_anywhere_gives_the_records_before(tail):
    for length in range(ENDS[0], len(DATA)):
        found = read(DATA[:length] + tail)
        assert [record.end for record in found] == PLACES[: whole(length)]


def test_a_first_record_is_never_torn():
    for length in range(ENDS[0]):
        with pytest.raises(CheckpointError, match=r"^`here` is corrupt at byte 0: "):
            read(DATA[:length])
        with pytest.raises(CheckpointError, match=r"^`here` is corrupt at byte 0: "):
            read(bytes(length))


def test_what_was_synced_is_not_torn():
    for length in range(ENDS[0], len(DATA)):
        with pytest.raises(
            CheckpointError, match=f"^`here` is corrupt at byte {[0, *ENDS][whole(length)]}: "
        ):
            read(DATA[:length], synced=len(DATA))
        assert len(read(DATA[:length], synced=[0, *ENDS][whole(length)])) == whole(length)


@pytest.mark.parametrize("ahead", [b"", bytes(700)])
def test_any_flipped_bit_is_damage_with_its_place(ahead):
    """Also where zeros were written ahead: they say nothing about the record before them."""
    for position in range(len(DATA)):
        for bit in (1, 128):
            data = DATA[:position] + bytes([DATA[position] ^ bit]) + DATA[position + 1 :] + ahead
            with pytest.raises(CheckpointError) as error:
                read(data)
            assert str(error.value) == (
                f"`here` is corrupt at byte {[0, *ENDS][whole(position)]}: "
                "a record is damaged, or a copy from another place; "
                "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"
            )


def test_sectors_that_were_not_written_are_a_torn_tail_in_the_last_record_only():
    data, places = written([(b"x" * 600, {"n": 0}), (b"y" * 2000, {"n": 1})])
    sector = (places[0].offset // 512 + 1) * 512
    torn = data[:sector] + bytes(512) + data[sector + 512 :]
    assert [record.content for record in read(torn)] == [{"n": 0}]
    record, _ = encode("run", places[1], b"", {"n": 2})
    with pytest.raises(CheckpointError, match=f"corrupt at byte {places[0].offset}: a record is damaged"):
        read(torn + record)


def test_a_hole_is_damage():
    with pytest.raises(CheckpointError, match=f"corrupt at byte {ENDS[0]}: a record is damaged"):
        read(DATA[: ENDS[0]] + bytes(ENDS[1] - ENDS[0]) + DATA[ENDS[1] :])
    with pytest.raises(CheckpointError, match=f"corrupt at byte {ENDS[0]}: a record is damaged"):
        read(DATA[: ENDS[0]] + DATA[ENDS[1] :])


@pytest.mark.parametrize("other", [{"run_id": "other"}, {"segment": 4}])
def test_a_record_of_another_run_or_file_is_damage(other):
    data, _ = written(RECORDS, **other)
    with pytest.raises(
        CheckpointError, match="corrupt at byte 0: a record is damaged, or a copy from another"
    ):
        read(data)


def test_a_record_of_another_history_is_damage():
    """Same run, file and place; another record before it."""
    other, places = written([(RECORDS[0][0], {"window": 9}), *RECORDS[1:]])
    assert [place.offset for place in places] == ENDS
    with pytest.raises(CheckpointError, match=f"corrupt at byte {ENDS[0]}: a record is damaged"):
        read(DATA[: ENDS[0]] + other[ENDS[0] :])


def test_another_format_is_refused():
    begin = b"RLJ4" + struct.pack("<II", 0, 2)
    head = zlib.crc32(begin, zlib.crc32(f"run/3/{ENDS[-1]}".encode()))
    with pytest.raises(CheckpointError) as error:
        read(DATA + begin + struct.pack("<II", head, 7) + b"??")
    assert str(error.value) == (
        f"`here` has format 4 at byte {ENDS[-1]}; this version reads {FORMAT}; "
        "run it with the version that wrote it"
    )


def test_what_somebody_appended_is_damage():
    for rest in (b"x", b"note", b"RLX4" + bytes(30), b"x" * 2000):
        with pytest.raises(CheckpointError, match=f"corrupt at byte {ENDS[-1]}"):
            read(DATA + rest)


def test_values_that_are_equal_in_python_differ_in_json():
    values = [1, 1.0, True, 0, 0.0, -0.0, False, None, "", [], {}, math.nan]
    for one in values:
        for other in values:
            assert (difference(one, other) is None) == (one is other)
            assert (difference([one], [other]) is None) == (one is other)
    assert difference(math.nan, float("nan")) is None


def test_a_longer_list_says_what_it_adds():
    assert difference({"a": ["x", "y"], "b": 1}, {"a": ["x", "y", "z"], "b": 1}) == {
        "change": {"a": {"keep": [2, 0], "put": ["z"]}}
    }
    assert difference(("s", "x", "y", "z"), ("t", "z")) == {"keep": [0, 1], "put": ("t",)}


def test_what_did_not_change_is_shared():
    old = {"a": ["x"], "b": {"c": [1]}}
    assert patched(old, {"set": {"d": 2}})["b"] is old["b"]


@pytest.mark.parametrize(
    "change", [{"drop": ["z"]}, {"change": {"z": {"is": 1}}}, {"change": {"a": {"keep": [2, 2], "put": []}}}]
)
def test_what_is_no_difference_of_a_value_is_refused(change):
    with pytest.raises(LookupError):
        patched({"a": ["x", "y", "z"]}, change)


MANIFEST = Manifest(
    7,
    2,
    0,
    {"sum/0/1": ("a", "b"), "sündig}/1/2": ()},
    ["in/0/1"],
    {"sink": {"text": 'ä"}', "n": [1, None, 1.5]}},
    False,
)


@pytest.mark.parametrize(
    "offsets", [None, SourceOffsets(["in"], "v1\n{}", "{}", {"0/0": 7}, {"0/0": "ä"}, 3, 9)]
)
def test_a_manifest_comes_back_from_json(offsets):
    manifest = replace(MANIFEST, offsets=offsets)
    assert Manifest.of(json.loads(json.dumps(manifest.picture()))) == manifest


def test_a_picture_is_json_whatever_publishers_keep():
    picture = replace(MANIFEST, publishers={"sink": {1: (2, 3)}}).picture()
    assert picture["publishers"] == {"sink": {"1": [2, 3]}}
    assert picture["states"]["sum/0/1"] is MANIFEST.states["sum/0/1"]
