"""Reads an audit log: each change once, with its result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ridgeline.engine.files.rotation import base_of, earlier
from ridgeline.service.access.audit import ASKED

UNKNOWN = "its result is not noted: the driver ended, or the disk was full"


def read_audit(path: str) -> tuple[list[dict[str, Any]], int]:
    """The entries of a log and its earlier files in order, and how many lines cannot be read.

    A change has one entry: that of its result, or that it was asked for with no result known. Raises OSError.
    """
    entries: dict[str, dict[str, Any]] = {}
    damaged = 0
    base = base_of(Path(path))
    for number, line in enumerate(_lines(base)):
        try:
            entry = json.loads(line)
            at, key = float(entry["at"]), str(entry.get("id") or number)
        except (ValueError, KeyError, TypeError, RecursionError):
            damaged += 1
            continue
        asked = entry.get("event") == ASKED
        entries[key] = {**entry, "at": at, **({"reason": UNKNOWN} if asked else {})}
    return list(entries.values()), damaged


def _lines(base: Path) -> Iterator[bytes]:
    for file in (*earlier(base), base):
        try:
            with file.open("rb") as lines:
                yield from lines
        except FileNotFoundError:
            continue  # it was removed meanwhile
