"""The rows of the application `regional`, as readers of its sinks see them, and how far its regions are."""

import json
from collections import Counter
from pathlib import Path

from support.crash.processes import committed


def rows_of(folder):
    """The rows that readers of a folder see, in the order of its files by partition."""
    return Counter(
        (row["key"], row["number"])
        for path in folder.glob("*.jsonl")
        for row in map(json.loads, path.read_text().splitlines())
    )


def progress(checkpoint):
    """The last windows of all regions."""
    return [committed(folder) for folder in sorted(Path(checkpoint, "regions").glob("*"))]


def all_go_on(checkpoint, window):
    """Whether all regions have committed this window."""
    windows = progress(checkpoint)
    return len(windows) == 3 and min(windows) >= window


def check_rows(output):
    """All sinks have all rows, each once; how many."""
    sent = rows_of(output / "sent")
    assert set(sent.values()) == {1}
    assert set(sent) == {(number % 16, number // 16) for number in range(len(sent))}
    for sink in ("fast", "slow"):
        assert rows_of(output / sink) == sent, sink
    return len(sent)
