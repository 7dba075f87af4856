"""The queries of Nexmark as SQL over all events at once, which results of streams are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.nexmark.events import KINDS
from benchmarks.nexmark.queries import EURO, LATEST, SIDE_ROWS

_WON = """
    select a.*, b.bidder, b.price, b.time as bid_time, b.extra as bid_extra
    from auctions a join bids b on a.id = b.auction and b.time between a.time and a.expires
    qualify row_number() over (partition by a.id order by b.price desc, b.time) = 1
"""
_RANKS = {
    "rank1": "price < 10000",
    "rank2": "price >= 10000 and price < 1000000",
    "rank3": "price >= 1000000",
}
_BIDS = ", ".join(
    ["count(*) as total_bids", *(f"count(*) filter ({one}) as {rank}_bids" for rank, one in _RANKS.items())]
)
_DISTINCT = ", ".join(
    f"count(distinct {name}) filter ({one}) as {rank}_{name}s"
    for name in ("bidder", "auction")
    for rank, one in {"total": "true", **_RANKS}.items()
)
_DAY = "strftime(time, '%Y-%m-%d')"
_BID = "auction, bidder, price, time, extra"
_ID = r"regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
SQL = {
    "q0": f"select {_BID} from bids",
    "q1": f"select auction, bidder, price * {EURO}::double as price, time, extra from bids",
    "q2": "select auction, price from bids where auction % 123 = 0",
    "q3": """select p.name, p.city, p.state, a.id from auctions a join persons p on a.seller = p.id
        where a.category = 10 and p.state in ('OR', 'ID', 'CA')""",
    "q4": f"select category, avg(price) as final from ({_WON}) group by category",
    "q5": """with windows as (
            select unnest(generate_series(date_trunc('minute', min(time)) - interval 10 second,
                max(time), interval 2 second)) as start from bids
        ), counts as (
            select auction, start + interval 10 second as window_end, count(*) as num
            from bids join windows on time >= start and time < start + interval 10 second group by all
        ) select auction, num, window_end from counts
        qualify rank() over (partition by window_end order by num desc) = 1""",
    "q6": f"""select seller, id as auction, avg(price) over (partition by seller order by bid_time
        rows between 9 preceding and current row) as price from ({_WON})""",
    "q7": """select auction, price, bidder, time, extra from bids
        qualify price = max(price) over (partition by time_bucket(interval 10 second, time))""",
    "q8": """select distinct p.id, p.name, time_bucket(interval 10 second, p.time) as start
        from persons p join auctions a on p.id = a.seller
        and time_bucket(interval 10 second, p.time) = time_bucket(interval 10 second, a.time)""",
    "q9": f"""select id, item_name, reserve, expires, seller, category, bidder, price, bid_time, bid_extra
        from ({_WON})""",
    "q10": f"select {_BID}, {_DAY} as dt, strftime(time, '%H:%M') as hm from bids",
    "q11": """with gaps as (
            select bidder, time,
                coalesce(time - lag(time) over own >= interval 10 second, true)::int as begins
            from bids window own as (partition by bidder order by time)
        ), sessions as (select *, sum(begins) over (partition by bidder order by time) as number from gaps)
        select bidder, count(*) as bid_count, min(time) as window_start,
            max(time) + interval 10 second as window_end from sessions group by bidder, number""",
    "q12": "select bidder, count(*) as bid_count from bids group by bidder",
    "q13": f"""select auction, bidder, price, time, 'value-' || (auction % {SIDE_ROWS}) as value from bids""",
    "q14": f"""select auction, bidder, price * {EURO}::double as price, time, extra,
        case when hour(time) between 8 and 18 then 'dayTime'
            when hour(time) <= 6 or hour(time) >= 20 then 'nightTime' else 'otherTime' end as kind,
        length(extra) - length(replace(extra, 'c', '')) as c_counts from bids
        where price * {EURO}::double > 1000000 and price * {EURO}::double < 50000000""",
    "q15": f"select {_DAY} as day, {_BIDS}, {_DISTINCT} from bids group by 1",
    "q16": f"""select channel, {_DAY} as day, max(strftime(time, '%H:%M')) as minute, {_BIDS}, {_DISTINCT}
        from bids group by 1, 2""",
    "q17": f"""select auction, {_DAY} as day, {_BIDS}, min(price) as min_price, max(price) as max_price,
        avg(price) as avg_price, sum(price)::bigint as sum_price from bids group by 1, 2""",
    "q18": """select bidder, auction, price, channel, url, time, extra from bids
        qualify row_number() over (partition by bidder, auction order by time desc) = 1""",
    "q19": """select *, row_number() over (partition by auction order by price desc, time) as rank
        from bids qualify rank <= 10""",
    "q20": """select b.*, a.item_name, a.description, a.initial_bid, a.reserve, a.time as time_auction,
        a.expires, a.seller, a.category, a.extra as extra_auction
        from bids b join auctions a on b.auction = a.id where a.category = 10""",
    "q21": f"""select auction, bidder, price, channel, case lower(channel) when 'apple' then '0'
            when 'google' then '1' when 'facebook' then '2' when 'baidu' then '3' else {_ID} end as channel_id
        from bids where {_ID} <> '' or lower(channel) in ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """select auction, bidder, price, channel, split_part(url, '/', 4) as dir1,
        split_part(url, '/', 5) as dir2, split_part(url, '/', 6) as dir3 from bids""",
}


def expected(name: str, folder: Path) -> Counter[str]:
    """The rows of a query over the files of a folder, as `comparable` writes them."""
    with _views(folder) as connection:
        relation = connection.sql(SQL[name])
        rows = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
    return comparable(name, rows)


def count(name: str, folder: Path, condition: str) -> int:
    """The number of rows of a query over those events of a folder for which a condition is true."""
    with _views(folder, f" where {condition}") as connection:
        return len(connection.sql(SQL[name]))


@contextmanager
def _views(folder: Path, where: str = "") -> Iterator[Any]:
    """A connection to DuckDB with the files of a folder as tables."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        for kind in KINDS:
            files = folder / kind / "*.parquet"
            connection.execute(f"create view {kind} as select * from read_parquet('{files}'){where}")
        yield connection


def comparable(name: str, rows: Iterable[Mapping[str, Any] | Any]) -> Counter[str]:
    """Rows as texts, without order; of rows that come again when they change the newest of each key."""
    found: Sequence[Mapping[str, Any]] = [row if isinstance(row, Mapping) else row._asdict() for row in rows]
    if name in LATEST:
        found = list({tuple(row[column] for column in LATEST[name]): row for row in found}.values())
    return Counter(str(sorted((key, _plain(value)) for key, value in row.items())) for row in found)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.9e}"
    return value.isoformat() if hasattr(value, "isoformat") else value
