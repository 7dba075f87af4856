"""What the payments example must give, computed by pandas. Knows nothing of Ridgeline."""

import pandas as pd


def payments(count):
    """All payments, with their number."""
    number = pd.Series(range(count), dtype="int64")
    cents = number * 7919 % 10_000
    cents[number % 997 == 0] -= 10_001
    return pd.DataFrame({"number": number, "account": number * 31 % 1_000, "cents": cents})


def running(count, per_window):
    """One row per account and window in which it got a valid payment: account, cents so far, window."""
    table = payments(count)
    table = table[table["cents"] >= 0].assign(window=table["number"] // per_window)
    table = table.groupby(["account", "window"])["cents"].sum().reset_index()
    table["cents"] = table.groupby("account")["cents"].cumsum()
    return table


def balances(count, per_window):
    """(account, balance) of the accounts that each window changed."""
    table = running(count, per_window)
    return list(zip(table["account"].tolist(), table["cents"].tolist(), strict=True))


def tops(count, per_window):
    """(account, balance) of the ten largest balances, at the end of every fifth window and of the last."""
    table = running(count, per_window)
    windows = -(-count // per_window)
    found = []
    for end in sorted({*range(4, windows, 5), windows - 1}):
        last = table[table["window"] <= end].groupby("account")["cents"].last().reset_index()
        last = last.sort_values(["cents", "account"], ascending=[False, True]).head(10)
        found += list(zip(last["account"].tolist(), last["cents"].tolist(), strict=True))
    return found


def rejected(count):
    """(account, cents, time as text) of the invalid payments."""
    table = payments(count)
    table = table[table["cents"] < 0]
    times = pd.to_datetime(table["number"], unit="ms", origin="2026-01-01").dt.strftime(
        "%Y-%m-%dT%H:%M:%S.%fZ"
    )
    return list(zip(table["account"].tolist(), table["cents"].tolist(), times, strict=True))
