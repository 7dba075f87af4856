"""The example that changes payments while it runs, on Spark: all balances are right in the end."""

import json
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from support.examples import oracle_payments as oracle
from support.paths import ROOT
from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COUNT = 60_000


@pytest.mark.guide("002", "Dynamic Application Modifications")
def test_what_comes_out_of_a_changed_application_equals_a_computation_by_hand(tmp_path):
    for name in ("payments.py", "live_change.py"):
        text = (ROOT / "examples" / name).read_text().replace("default=100_000", f"default={COUNT}")
        whole = 'window="200ms", window_work="1h"'  # windows are not cut on a busy machine either
        (tmp_path / name).write_text(text.replace('window="200ms"', whole))
    ran = subprocess.run(
        [sys.executable, "live_change.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for what in ("set `payments.per_window` to 500", "repartition `balances` to 4", "an audit for an hour"):
        assert what in ran.stdout
    assert ran.stdout.count("APPLIED") == 3

    totals = {}
    for file in sorted((tmp_path / "balances").rglob("*.parquet"), key=lambda file: file.name):
        for row in pq.read_table(file).to_pylist():
            totals[row["account"]] = max(row["cents"], totals.get(row["account"], 0))
    assert totals == dict(sorted(oracle.balances(COUNT, 2_000)))

    rows = [
        json.loads(line)
        for file in sorted((tmp_path / "audit").glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    assert [row["payments"] for row in rows] == list(range(500, 500 * len(rows) + 1, 500))
    table = oracle.payments(COUNT)
    seen = table["cents"].iloc[COUNT - rows[-1]["payments"] :]  # the last ones: since it was added
    assert rows[-1]["cents"] == seen.sum()
    shutil.rmtree(tmp_path / "state")
