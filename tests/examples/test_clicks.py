"""The example of clicks, and the contract's: sessions and top pages equal those of a plain loop."""

import gzip
import json
import shutil
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from ridgeline.testing import run_local
from support.examples.contract import FILES, loaded
from support.paths import ROOT

EXAMPLES = ROOT / "examples"
GAP = timedelta(minutes=30)


def clicks() -> list[dict[str, Any]]:
    """The clicks but those of the health check, by time."""
    found = []
    for file in sorted(EXAMPLES.glob("in/clicks-*.jsonl.gz")):
        for line in gzip.decompress(file.read_bytes()).decode().splitlines():
            if line.endswith("}"):
                row = json.loads(line)
                found.append({**row, "time": datetime.fromisoformat(row["time"])})
    return sorted((row for row in found if row["page"] != "/health"), key=lambda row: row["time"])


def sessions(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """User, clicks, first and last page, country of each session."""
    home = {"ann": "ch", "bob": "no", "cyd": "de"}
    spans: dict[str, list[list[dict[str, Any]]]] = {}
    for row in rows:
        own = spans.setdefault(row["user"], [])
        if own and row["time"] - own[-1][-1]["time"] < GAP:
            own[-1].append(row)
        else:
            own.append([row])
    return [
        (user, len(span), span[0]["page"], span[-1]["page"], home.get(user))
        for user, own in spans.items()
        for span in own
    ]


@pytest.mark.parametrize("file", [EXAMPLES / "clicks.py", FILES / "clicks.py"], ids=["example", "contract"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_results_are_those_of_a_plain_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, file: Path
) -> None:
    shutil.copytree(EXAMPLES / "in", tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    module = loaded(file, monkeypatch)
    attributes = {f"{name}.partitions": str(partitions) for name in ("pages", "sessions", "home")}
    run_local(module.app, attributes=attributes, properties={"clicks.until": "end", "users.until": "end"})
    table = ds.dataset(tmp_path / "out" / "sessions", partitioning="hive").to_table()
    columns = ("user", "clicks", "entry", "exit", "country")
    found = list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))
    assert sorted(found, key=repr) == sorted(sessions(clicks()), key=repr)
    minutes: dict[str, Counter[str]] = {}
    for row in clicks():
        minutes.setdefault(row["time"].strftime("%H:%M"), Counter())[row["page"]] += 1
    rows = map(json.loads, lines_of(tmp_path / "out" / "pages"))
    top = {row["window_start"][11:16]: row["pages"] for row in rows}
    assert {minute: {one["value"]: one["count"] for one in pages} for minute, pages in top.items()} == minutes
    assert len(lines_of(tmp_path / "out" / "broken")) == 2


def lines_of(folder: Path) -> list[str]:
    return [line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
