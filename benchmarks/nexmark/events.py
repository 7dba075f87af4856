"""The events of Nexmark: persons, auctions and bids, 1 : 3 : 46, the same for a seed whatever is asked for.

An online auction: persons register, open auctions and bid. Event `n` has the time `START` and `n` times
`STEP` microseconds. Of 50 events the first is a person, the next three are auctions, the others bids. Half of
the bids go to a hot auction, three quarters of them come from a hot bidder, half of them over a hot channel.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.testing import ListInput

START = datetime(2026, 1, 1, 7, 58, tzinfo=UTC)
STEP = 1_000
"""Microseconds between two events: a thousand a second."""
OF_50 = {"persons": 1, "auctions": 3, "bids": 46}
FIRST_ID, FIRST_CATEGORY, CATEGORIES, CHANNELS = 1_000, 10, 5, 10_000
IN_FLIGHT, LEAD, ACTIVE, HOT = 100, 10, 1_000, 100
"""Auctions that bids go to, ids that do not exist yet, persons that take part, and of how many one is hot."""
AUCTION_SECONDS = 4
"""No auction is open for longer."""
NEAR_SECONDS, FAR_SECONDS = 4, 60
"""No bid is further from its auction, and no auction further from its seller."""
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_CITIES = ["Bend", "Boise", "Cheyenne", "Kent", "Los Angeles", "Phoenix", "Portland", "Redmond", "Seattle"]
_FIRST = ["Deiter", "John", "Julie", "Kate", "Luke", "Paul", "Peter", "Sarah", "Saul", "Vicky", "Walter"]
_LAST = ["Abrams", "Bartels", "Jones", "Noris", "Shultz", "Smith", "Spencer", "Walton", "White"]
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


class Person(NamedTuple):
    """Someone who sells and bids."""

    id: int
    name: str
    email: str
    credit_card: str
    city: str
    state: str
    time: datetime
    extra: str


class Auction(NamedTuple):
    """An item for sale, from `time` to `expires`."""

    id: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    time: datetime
    expires: datetime
    seller: int
    category: int
    extra: str


class Bid(NamedTuple):
    """What a person offers for an auction."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    time: datetime
    extra: str


KINDS: dict[str, type] = {"persons": Person, "auctions": Auction, "bids": Bid}
SCHEMAS: dict[str, pa.Schema] = {
    name: ListInput(kind, []).output.schema.arrow for name, kind in KINDS.items()
}


def batches(first: int, count: int, seed: int = 7) -> dict[str, pa.RecordBatch]:
    """The events from `first` to `first + count`, by the names of `KINDS`; both are multiples of 50."""
    numbers = np.arange(first, first + count).reshape(-1, 50)
    makers = {"persons": _persons, "auctions": _auctions, "bids": _bids}
    spans = {"persons": numbers[:, :1], "auctions": numbers[:, 1:4], "bids": numbers[:, 4:]}
    found = {}
    for place, (name, make) in enumerate(makers.items()):
        # a generator for each 50 events would cost more than they do
        blocks = [make(_Random(seed, place, int(one[0, 0]) // 50), one) for one in _blocks(spans[name])]
        table = pa.concat_tables(pa.table(block, schema=SCHEMAS[name]) for block in blocks)
        found[name] = table.combine_chunks().to_batches()[0]
    return found


_BLOCK = 100
"""So many times 50 events share a sequence of random numbers."""


def _blocks(numbers: Any) -> Iterator[Any]:
    """Rows of numbers in blocks that begin where all callers begin them."""
    first = int(numbers[0, 0]) // 50
    begin = 0
    while begin < len(numbers):
        end = begin + _BLOCK - (first + begin) % _BLOCK
        yield numbers[begin:end]
        begin = end


class _Random:
    """Random numbers for a row of events each: the same for each row, whichever rows are asked for."""

    def __init__(self, seed: int, place: int, row: int) -> None:
        self.skipped = row % _BLOCK
        self.random = np.random.default_rng([seed, place, row // _BLOCK])

    def whole(self, high: Any, shape: tuple[int, int]) -> Any:
        """Numbers from 0 to below `high`, an array of this shape or one for all."""
        every = self.random.random((_BLOCK, shape[1]))
        return (every[self.skipped : self.skipped + shape[0]] * high).astype(np.int64)

    def text(self, letters: int, shape: tuple[int, int]) -> Any:
        """Texts of so many small letters."""
        codes = self.random.integers(0, 26, (_BLOCK, shape[1], letters))
        chosen = _LETTERS[codes[self.skipped : self.skipped + shape[0]]]
        return np.ascontiguousarray(chosen).view(f"<U{letters}")[..., 0]

    def prices(self, shape: tuple[int, int]) -> Any:
        """Prices from 1 to ten million cents; most are small."""
        every = self.random.random((_BLOCK, shape[1]))[self.skipped : self.skipped + shape[0]]
        return np.rint(10 ** (every * 6) * 100).astype(np.int64)


def _times(numbers: Any) -> Any:
    begin = round(START.timestamp() * 1_000_000)
    return begin + numbers * STEP


def _timestamps(microseconds: Any) -> pa.Array:
    return pa.array(microseconds.reshape(-1)).cast(pa.timestamp("us", "UTC"))


def _texts(values: Any) -> pa.Array:
    return pa.array(values.reshape(-1).tolist(), pa.string())


def _persons(random: _Random, numbers: Any) -> list[pa.Array]:
    shape = numbers.shape
    ids = numbers // 50 + FIRST_ID
    first, last = np.array(_FIRST)[random.whole(11, shape)], np.array(_LAST)[random.whole(9, shape)]
    names = np.char.add(np.char.add(first, " "), last)
    emails = np.char.add(np.char.add(random.text(7, shape), "@"), np.char.add(random.text(5, shape), ".com"))
    cards = np.char.zfill(random.whole(10**16, shape).astype(str), 16)
    cities, states = np.array(_CITIES)[random.whole(9, shape)], np.array(_STATES)[random.whole(6, shape)]
    return [
        pa.array(ids.reshape(-1)),
        *map(_texts, (names, emails, cards, cities, states)),
        _timestamps(_times(numbers)),
        _texts(random.text(40, shape)),
    ]


def _last_person(numbers: Any) -> Any:
    return numbers // 50


def _last_auction(numbers: Any) -> Any:
    """The newest auction that there is at an event; before the first one it is the first."""
    return np.maximum(numbers // 50 * 3 + np.clip(numbers % 50, 1, 3) - 1, 0)


def _someone(random: _Random, numbers: Any, hot: Any, share: int) -> Any:
    """A person: of `share` draws all but one are the hot one, the other any active one, or one to come."""
    last = _last_person(numbers)
    active = np.minimum(last + 1, ACTIVE)
    any_one = last + 1 - active + random.whole(active + LEAD, numbers.shape)
    return np.where(random.whole(share, numbers.shape) > 0, last // HOT * HOT + hot, any_one) + FIRST_ID


def _auctions(random: _Random, numbers: Any) -> list[pa.Array]:
    shape = numbers.shape
    first, times = random.prices(shape), _times(numbers)
    expires = times + 1_000 + random.whole(2 * IN_FLIGHT * 50 // 3 * STEP, shape)
    names, descriptions = random.text(20, shape), random.text(60, shape)
    columns = {
        "reserve": first + random.prices(shape),
        "seller": _someone(random, numbers, 0, 4),
        "category": FIRST_CATEGORY + random.whole(CATEGORIES, shape),
    }
    reserve, seller, category = (pa.array(column.reshape(-1)) for column in columns.values())
    return [
        pa.array((_last_auction(numbers) + FIRST_ID).reshape(-1)),
        _texts(names),
        _texts(descriptions),
        pa.array(first.reshape(-1)),
        reserve,
        _timestamps(times),
        _timestamps(expires),
        seller,
        category,
        _texts(random.text(40, shape)),
    ]


def _url(random: _Random, shape: tuple[int, int]) -> Any:
    url = np.full(shape, "https://www.nexmark.com/")
    for _ in range(3):
        url = np.char.add(np.char.add(url, random.text(5, shape)), "/")
    return np.char.add(url, "item.htm?query=1")


def _bids(random: _Random, numbers: Any) -> list[pa.Array]:
    shape = numbers.shape
    last = _last_auction(numbers)
    least = np.maximum(last - IN_FLIGHT, 0)
    any_one = least + random.whole(last - least + 1 + LEAD, shape)
    auctions = np.where(random.whole(2, shape) > 0, last // HOT * HOT, any_one) + FIRST_ID
    number, hot = random.whole(CHANNELS, shape), random.whole(2, shape) > 0
    channels = np.where(hot, np.array(_HOT_CHANNELS)[number % 4], np.char.add("channel-", number.astype(str)))
    with_id = ~hot & (random.whole(10, shape) > 0)
    ids = np.where(with_id, np.char.add("&channel_id=", (number * 7_919 % 10_007).astype(str)), "")
    return [
        pa.array(auctions.reshape(-1)),
        pa.array(_someone(random, numbers, 1, 4).reshape(-1)),
        pa.array(random.prices(shape).reshape(-1)),
        _texts(channels),
        _texts(np.char.add(_url(random, shape), ids)),
        _timestamps(_times(numbers)),
        _texts(random.text(40, shape)),
    ]


def write(folder: Path, files: int, events: int, seed: int = 7) -> None:
    """Write files of so many events each as Parquet, in a folder for each kind."""
    for name in KINDS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number in range(files):
        for name, batch in batches(number * events, events, seed).items():
            pq.write_table(pa.Table.from_batches([batch]), folder / name / f"{number:06d}.parquet")
