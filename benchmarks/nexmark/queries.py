"""The queries of Nexmark, q0 to q22, as steps of streams.

Each takes the streams that its parameters name, and `app` where it reads another one, and returns its result.
docs/nexmark.md says what a query asks, and where a result comes otherwise than in SQL over all events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import polars as pl

from benchmarks.nexmark.events import AUCTION_SECONDS, FAR_SECONDS, NEAR_SECONDS
from ridgeline import Application, InputOperator, OutputPort, State, Stream
from ridgeline.operators import aggregate as agg
from ridgeline.operators import rolling, session, sliding, tumbling

EURO = 0.908
SIDE_ROWS = 10_000
CHANNEL_ID = r"(?:&|^)channel_id=([^&]*)"
Rows = Stream[Any]


def q0(bids: Rows) -> Rows:
    """Pass bids through."""
    return bids.select("q0", "auction", "bidder", "price", "time", "extra")


def q1(bids: Rows) -> Rows:
    """Prices in euros."""
    return bids.select("q1", "auction", "bidder", "time", "extra", price=pl.col("price") * EURO)


def q2(bids: Rows) -> Rows:
    """The bids of every 123rd auction."""
    return bids.filter("chosen", "auction % 123 = 0").select("q2", "auction", "price")


def q3(auctions: Rows, persons: Rows) -> Rows:
    """Who sells in Oregon, Idaho or California in category 10, and which auctions."""
    items = auctions.filter("items", "category = 10").select("ids", "id", "seller", "time")
    local = persons.filter("local", pl.col("state").is_in(["OR", "ID", "CA"]))
    sellers = local.select("sellers", "name", "city", "state", "time", seller="id")
    pairs = items.join_within("pairs", sellers, on="seller", within=f"{FAR_SECONDS}s")
    return pairs.select("q3", "name", "city", "state", "id")


def winners(auctions: Rows, bids: Rows) -> Rows:
    """The highest bid of each auction while it was open, the first of equal ones, once no other can come."""
    pairs = auctions.join_within("pairs", bids.rename("id", {"auction": "id"}), "id", f"{NEAR_SECONDS}s")
    valid = pairs.filter("valid", "time_right >= time and time_right <= expires")
    of_auction = valid.group_by("id").window(session(f"{AUCTION_SECONDS}s"))
    same = {name: agg.first(name) for name in ("category", "seller", "item_name", "expires", "reserve")}
    winner = {name: agg.max_by(name, "price") for name in ("bidder", "time_right", "extra_right")}
    return of_auction.aggregate("winners", price=agg.max("price"), **same, **winner)


def q4(auctions: Rows, bids: Rows) -> Rows:
    """The mean of the winning bids of each category, so far."""
    return winners(auctions, bids).group_by("category").aggregate("q4", final=agg.mean("price"))


def q5(bids: Rows) -> Rows:
    """The auctions with the most bids of the last 10 seconds, every 2 seconds."""
    counts = bids.group_by("auction").window(sliding("10s", "2s")).aggregate("counts", num=agg.count())
    sql = "select auction, num, window_end from counts qualify rank() over (order by num desc) = 1"
    return counts.app.sql("q5", sql, counts=counts, windows=tumbling("2s"))


def q6(auctions: Rows, bids: Rows) -> Rows:
    """The mean price of the last 10 auctions of each seller, by the times of the winning bids."""
    won = winners(auctions, bids).with_times("times", "time_right", lateness=f"{3 * AUCTION_SECONDS}s")
    last = won.group_by("seller").window(rolling(count=10))
    means = last.aggregate("means", auction=agg.last("id"), price=agg.mean("price"))
    return means.select("q6", "seller", "auction", "price")


def q7(bids: Rows) -> Rows:
    """The highest bids of each 10 seconds."""
    sql = """select auction, price, bidder, time, extra from bids
        qualify price = max(price) over ()"""
    return bids.app.sql("q7", sql, bids=bids, windows=tumbling("10s"))


def q8(persons: Rows, auctions: Rows) -> Rows:
    """Who has registered and opened an auction in the same 10 seconds."""
    sold = auctions.select("sold", "time", id="seller")
    pairs = persons.join_in_window("pairs", sold, on="id", windows=tumbling("10s"))
    return pairs.deduplicate("once", key="id").select(
        "q8", "id", "name", start=pl.col("time").dt.truncate("10s")
    )


def q9(auctions: Rows, bids: Rows) -> Rows:
    """The winning bid of each auction."""
    columns = ("id", "item_name", "reserve", "expires", "seller", "category", "bidder", "price")
    return winners(auctions, bids).select("q9", *columns, bid_time="time_right", bid_extra="extra_right")


def q10(bids: Rows) -> Rows:
    """All bids with day and minute, by which files are divided."""
    parts = {"dt": pl.col("time").dt.strftime("%Y-%m-%d"), "hm": pl.col("time").dt.strftime("%H:%M")}
    return bids.select("q10", "auction", "bidder", "price", "time", "extra", **parts)


def q11(bids: Rows) -> Rows:
    """How many bids a user made in each session."""
    return bids.group_by("bidder").window(session("10s")).aggregate("q11", bid_count=agg.count())


def q12(bids: Rows) -> Rows:
    """How many bids a user made in 10 windows of the application: in processing time."""
    sql = "select bidder, count(*) as bid_count from bids group by bidder"
    return bids.app.sql("q12", sql, bids=bids, application_window_count=10)


class SideRow(NamedTuple):
    """A row of the side input."""

    key: int
    value: str


class SideInput(InputOperator):
    """The side input of q13: a value for each remainder of an auction's id."""

    rows = OutputPort(SideRow)
    given = State(False)  # noqa: FBT003  its first value

    def emit_tuples(self) -> None:
        """Emit all rows at once."""
        if not self.given:
            for key in range(SIDE_ROWS):
                self.rows.emit(SideRow(key, f"value-{key}"))
            self.given = True
        self.finish()


def q13(app: Application, bids: Rows) -> Rows:
    """Bids with a value of a table that is bounded."""
    table = app.read("side", SideInput()).table("by_key", key="key")
    joined = bids.with_columns("keyed", key=pl.col("auction") % SIDE_ROWS).join(
        "joined", table, broadcast=True
    )
    return joined.select("q13", "auction", "bidder", "price", "time", "value")


def q14(bids: Rows) -> Rows:
    """Bids of some prices, with the time of day, and how often a letter is in them."""
    euros, hour = pl.col("price") * EURO, pl.col("time").dt.hour()
    kind = (
        pl.when(hour.is_between(8, 18))
        .then(pl.lit("dayTime"))
        .when((hour <= 6) | (hour >= 20))
        .then(pl.lit("nightTime"))
        .otherwise(pl.lit("otherTime"))
    )
    count = pl.col("extra").str.count_matches("c", literal=True).cast(pl.Int64)
    some = bids.filter("some", (euros > 1_000_000) & (euros < 50_000_000))
    return some.select("q14", "auction", "bidder", "time", "extra", price=euros, kind=kind, c_counts=count)


def ranked(bids: Rows, *kept: Any, of: Sequence[str] = ("bidder", "auction")) -> Rows:
    """Some columns of bids, the day, and the columns `of` in one more column for each rank of the price."""
    price = pl.col("price")
    ranks = {"rank1": price < 10_000, "rank2": price.is_between(10_000, 999_999), "rank3": price >= 1_000_000}
    columns = {
        f"{name}_{rank}": pl.when(within).then(pl.col(name)) for rank, within in ranks.items() for name in of
    }
    return bids.select("ranked", *kept, day=pl.col("time").dt.strftime("%Y-%m-%d"), **columns)


RANKS = ("rank1", "rank2", "rank3")
BIDS = {"total_bids": agg.count(), **{f"{rank}_bids": agg.count(f"bidder_{rank}") for rank in RANKS}}
DISTINCT = {
    f"{column}_{name}s": agg.count_unique(name if column == "total" else f"{name}_{column}")
    for name in ("bidder", "auction")
    for column in ("total", *RANKS)
}


def q15(bids: Rows) -> Rows:
    """How many bids, bidders and auctions a day has, by the rank of the price, so far."""
    return ranked(bids, "bidder", "auction").group_by("day").aggregate("q15", **BIDS, **DISTINCT)


def q16(bids: Rows) -> Rows:
    """The same by channel, with the newest minute."""
    minute = pl.col("time").dt.strftime("%H:%M").alias("minute")
    by_channel = ranked(bids, "channel", "bidder", "auction", minute).group_by("channel", "day")
    return by_channel.aggregate("q16", minute=agg.max("minute"), **BIDS, **DISTINCT)


def q17(bids: Rows) -> Rows:
    """How many bids an auction has had on a day, and their prices, so far."""
    prices = {f"{one.kind}_price": one for one in (agg.min("price"), agg.max("price"), agg.sum("price"))}
    by_auction = ranked(bids, "auction", "price", of=["bidder"]).group_by("auction", "day")
    return by_auction.aggregate("q17", **BIDS, **prices, avg_price=agg.mean("price"))


def q18(bids: Rows) -> Rows:
    """The last bid of each bidder for each auction, so far."""
    values = {name: agg.last(name) for name in ("price", "channel", "url", "time", "extra")}
    return bids.group_by("bidder", "auction").aggregate("q18", **values)


def q19(bids: Rows) -> Rows:
    """The ten highest bids of each auction, so far."""
    return bids.group_by("auction").top("q19", 10, by="price")


def q20(bids: Rows, auctions: Rows) -> Rows:
    """Bids with their auctions, of category 10."""
    items = auctions.filter("items", "category = 10").rename("keyed", {"id": "auction"})
    return bids.join_within("q20", items, on="auction", within=f"{NEAR_SECONDS}s", suffix="_auction")


def q21(bids: Rows) -> Rows:
    """Bids with the id of their channel, from its name or from the URL."""
    known = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    found = pl.col("url").str.extract(CHANNEL_ID, 1)
    channel = pl.col("channel").str.to_lowercase()
    named = channel.replace_strict(known, default=None, return_dtype=pl.String)
    with_id = bids.select(
        "ids", "auction", "bidder", "price", "channel", channel_id=pl.coalesce(named, found)
    )
    return with_id.filter("q21", "channel_id is not null")


def q22(bids: Rows) -> Rows:
    """Bids with the directories of their URLs."""
    parts = pl.col("url").str.split("/")
    directories = {f"dir{place}": parts.list.get(place + 2, null_on_oob=True) for place in (1, 2, 3)}
    return bids.select("q22", "auction", "bidder", "price", "channel", **directories)


QUERIES: dict[str, Callable[..., Rows]] = {f"q{number}": globals()[f"q{number}"] for number in range(23)}
LATEST = {
    "q4": ("category",),
    "q15": ("day",),
    "q16": ("channel", "day"),
    "q17": ("auction", "day"),
    "q18": ("bidder", "auction"),
    "q19": ("auction", "rank"),
}
"""Queries that give a row again when it changes, and its key: the newest row counts."""
