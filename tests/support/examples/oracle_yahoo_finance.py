"""What the Yahoo Finance example must give, computed by pandas from the same data.

Knows nothing of Ridgeline.
"""

import pandas as pd
from bokeh_sampledata import stocks

SYMBOLS = ["AAPL", "FB", "GOOG", "IBM", "MSFT"]


def daily(days):
    """The last trading days of all stocks, with the number of the day, from 0."""
    table = pd.concat(
        [pd.DataFrame(getattr(stocks, symbol)).assign(symbol=symbol) for symbol in SYMBOLS], ignore_index=True
    )
    dates = sorted(table["date"].unique())[-days:]
    table = table[table["date"].isin(dates)].copy()
    table["day"] = table["date"].map({date: number for number, date in enumerate(dates)})
    return table


def ticks(days):
    """One row a tick: symbol, day, tick, price, volume of the day, volume since the last tick, time."""
    table = daily(days)
    rises = table["close"] >= table["open"]
    prices = [
        table["open"],
        table["low"].where(rises, table["high"]),
        table["high"].where(rises, table["low"]),
        table["close"],
    ]
    parts = []
    for tick, (price, percent, hour) in enumerate(
        zip(prices, (30, 50, 65, 100), ("09:30", "11:00", "14:00", "16:00"), strict=True)
    ):
        part = pd.DataFrame({"symbol": table["symbol"], "day": table["day"], "tick": tick, "price": price})
        part["so_far"] = table["volume"] * percent // 100
        part["time"] = pd.to_datetime(table["date"] + " " + hour, utc=True)
        parts.append(part)
    found = pd.concat(parts, ignore_index=True).sort_values(["symbol", "day", "tick"], ignore_index=True)
    found["volume"] = found["so_far"] - found.groupby(["symbol", "day"])["so_far"].shift(fill_value=0)
    found["week"] = found["day"] // 5
    return found


def quotes(days):
    """(symbol, price, volume of the day, time) of every tick."""
    table = ticks(days)
    times = [time.to_pydatetime() for time in table["time"]]
    return list(zip(table["symbol"], table["price"].tolist(), table["so_far"].tolist(), times, strict=True))


def charts(days):
    """(symbol, high, low, volume) of every five days."""
    table = (
        ticks(days)
        .groupby(["symbol", "week"])
        .agg(high=("price", "max"), low=("price", "min"), volume=("volume", "sum"))
        .reset_index()
    )
    return list(
        zip(
            table["symbol"],
            table["high"].tolist(),
            table["low"].tolist(),
            table["volume"].tolist(),
            strict=True,
        )
    )


def averages(days):
    """(symbol, average price) over the last 25 days, at the end of every five."""
    table = ticks(days)
    found = []
    for week in range(int(table["week"].max()) + 1):
        recent = table[(table["week"] > week - 5) & (table["week"] <= week)]
        found += list(recent.groupby("symbol")["price"].mean().items())
    return found


def years(days):
    """(symbol, days, last close, high, low, volume) of every stock, from the daily quotes alone."""
    return [
        (
            symbol,
            len(rows),
            rows["close"].iloc[-1].item(),
            rows["high"].max().item(),
            rows["low"].min().item(),
            rows["volume"].sum().item(),
        )
        for symbol, rows in daily(days).sort_values("day").groupby("symbol")
    ]
