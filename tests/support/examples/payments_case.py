"""The payments example, built and checked."""

import payments
from support.examples import oracle_payments as oracle
from support.examples.cases import partition_attributes, rows

COUNT = 100_000


def build(partitions, folder, *, count=COUNT, per_window=2_000):
    """The application.

    Both keyed operators keep what belongs to a key, so only `check` and the outputs are divided
    round robin.

    Tuples that go to a wrong partition of `balances` show in the results; of `top` hardly: balances only
    grow, so older ones of the same account are not among the ten largest.
    """
    stores = {f"{name}_store.path": f"{folder}/{name}" for name in ("balance", "top", "rejected")}
    return {
        "app": payments.app,
        "properties": {**stores, "payments.count": str(count), "payments.per_window": str(per_window)},
        "attributes": partition_attributes(payments.app, partitions),
    }


def check(folder, *, count=COUNT, per_window=2_000):
    """Compare the three outputs with the oracle."""
    assert sorted(rows(f"{folder}/balance")) == sorted(oracle.balances(count, per_window))
    assert sorted(rows(f"{folder}/top")) == sorted(oracle.tops(count, per_window))
    assert sorted(rows(f"{folder}/rejected")) == sorted(oracle.rejected(count))
