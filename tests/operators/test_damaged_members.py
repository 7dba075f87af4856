"""Gzip files of which members are cut off or changed: the lines of whole ones are read, whatever fails."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from ridgeline import Application, DeadLetter
from ridgeline.operators import FileInput
from ridgeline.operators._mended_gzip import MendedGzip
from ridgeline.testing import CollectorSink, Faults, run_local
from support.depth import deep


class Row(NamedTuple):
    member: int
    number: int
    text: str


def members(random: Random, count: int) -> list[list[Row]]:
    return [
        [Row(member, number, f"{random.getrandbits(64):x}" * random.randint(0, 3)) for number in range(size)]
        for member in range(count)
        for size in [random.choice([0, 1, 7, 300, 3000])]
    ]


def lines(rows: list[Row]) -> bytes:
    return "".join(f"{json.dumps(row._asdict())}\n" for row in rows).encode()


def damaged(random: Random, data: bytes, how: str) -> bytes:
    """A member with its end cut off, another checksum, or other bytes before it."""
    if how == "cut":
        return data[: random.randint(1, len(data) - 1)]
    if how == "sum":
        at = len(data) - random.randint(1, 8)
        return data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]
    return b"what is this?" + data


def files(random: Random) -> tuple[bytes, list[list[Row]], list[str]]:
    """A file, the rows of its members, and what is wrong with each; one that is whole follows."""
    rows = members(random, 6)
    how = [way for _ in range(3) for way in (random.choice(["", "cut", "sum", "before"]), "")]
    parts = [gzip.compress(lines(own), random.choice([0, 1, 6])) for own in rows]
    made = [damaged(random, part, way) if way else part for part, way in zip(parts, how, strict=True)]
    zeros = [b"\0" * random.choice([0, 0, 5, 70_000]) if way != "cut" else b"" for way in how]
    return b"".join(part + padding for part, padding in zip(made, zeros, strict=True)), rows, how


def check(found: list[Row], rows: list[list[Row]], how: list[str]) -> None:
    """All rows of members that are not cut, the first ones of those that are, in their order."""
    for member, (own, way) in enumerate(zip(rows, how, strict=True)):
        read = [row for row in found if row.member == member]
        assert read == (own if way != "cut" else own[: len(read)]), (member, way)
    assert [row.member for row in found] == sorted(row.member for row in found)


@pytest.mark.parametrize("seed", range(deep(12)))
def test_text_of_members_that_are_whole_is_read(seed: int) -> None:
    random = Random(seed)
    data, rows, how = files(random)
    reader = MendedGzip(io.BytesIO(data))
    text = b""
    while block := reader.read(random.choice([1, 100, 5000, 10**6])):
        text += block
    good = [line for line in text.split(b"\n") if line and b"\xff" not in line]
    found = [Row(**json.loads(line)) for line in good]
    check(found, rows, how)
    notes = [line for line in text.split(b"\n") if b"\xff" in line]
    assert len(notes) == sum(bool(way) for way in how)
    assert all(b"damaged at byte" in note and b"it is read on at byte" in note for note in notes)


@pytest.mark.parametrize("cut", [1, 8, 9, 30])
def test_a_last_member_that_is_damaged_is_an_error_once_its_text_was_read(cut: int) -> None:
    data = gzip.compress(b"one\n") + gzip.compress(b"two\n" * 100)
    reader = MendedGzip(io.BytesIO(data[:-cut]))
    found: list[bytes] = []
    with pytest.raises((EOFError, zlib.error)):
        found.extend(iter(lambda: reader.read(3), b""))
    assert (b"one\n" + b"two\n" * 100).startswith(b"".join(found))
    assert len(b"".join(found)) >= 4


@pytest.mark.parametrize("seed", range(deep(2)))
def test_with_kills_in_small_windows(seed: int, tmp_path: Path) -> None:
    random = Random(100 + seed)
    for name in ("a", "b"):
        data, rows, how = files(random)
        (tmp_path / f"{name}.jsonl.gz").write_bytes(data)
        app = Application("files", window="50ms")
        source = FileInput(tmp_path / f"{name}.jsonl.gz", Row, until="end", settle=0, window_bytes=9_000)
        app.read("in", source, on_error="SKIP").write("sink", CollectorSink(Row))
        app.dead_letters(CollectorSink(DeadLetter))
        run = run_local(app, faults=Faults(seed))
        check(run.collected("sink"), rows, how)
        notes = [one for one in run.collected("dead_letters") if "damaged at byte" in one.tuple]
        assert bool(notes) == any(how)
