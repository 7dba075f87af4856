"""Counting of keys: all tuples by cell, a sample key by key, in bounded memory."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest

from ridgeline import Schema, StreamCodec, Tuples, stable_hash
from ridgeline.api.codec import ColumnCodec, FunctionCodec
from ridgeline.engine.exchange.key_counts import (
    KeyCounters,
    key_text,
    packed_cells,
    unpacked_cells,
)


class Visit(NamedTuple):
    page: str
    user: int


def visits(pages):
    return Tuples.of_rows(Schema(Visit), [Visit(page, number) for number, page in enumerate(pages)])


def counted(parts, codec, bits=6):
    counters = KeyCounters(bits)
    for part in parts:
        counters.add((7,), codec, codec.hashes(part).astype(np.uint64), part)
    (counts,) = counters.counts()
    return counts


def test_cells_hold_every_tuple():
    pages = [f"page {number * number % 97}" for number in range(5_000)]
    counts = counted([visits(pages[:1_000]), visits(pages[1_000:])], ColumnCodec(["page"]))
    expected = Counter(stable_hash(page) & 63 for page in pages)
    cells = unpacked_cells(counts.cells, counts.bits)
    assert {cell: many for cell, many in enumerate(cells.tolist()) if many} == expected
    assert (counts.sinks, counts.tuples) == ((7,), 5_000)


def test_few_tuples_are_all_looked_at():
    counts = counted([visits(["home", "cart", "home"])], ColumnCodec(["page"]))
    assert counts.sampled == 3
    assert counts.heavy == ((stable_hash("home"), "home", 2), (stable_hash("cart"), "cart", 1))


class ByBank(StreamCodec):
    def hash(self, tuple):
        return stable_hash(tuple.page[:2])


class Broken(StreamCodec):
    def key_columns(self, schema):
        raise RuntimeError


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        (ColumnCodec(["page"]), "home"),
        (ColumnCodec(["page", "user"]), "home, 0"),
        (FunctionCodec(lambda visit: visit.page.upper()), "HOME"),
        (ByBank(), "Visit(page='home', user=0)"),
        (Broken(), "a Visit"),
    ],
)
def test_a_key_has_a_text_for_people(codec, text):
    assert key_text(codec, visits(["home"])) == text


@pytest.mark.parametrize("used", [0, 1, 300, 1_024])
def test_cells_are_packed_and_unpacked(used):
    cells = np.zeros(1_024, np.int64)
    cells[:used] = np.arange(1, used + 1)
    data = packed_cells(cells)
    assert len(data) <= 4 * 1_024
    assert unpacked_cells(data, 10).tolist() == cells.tolist()
