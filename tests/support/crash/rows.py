"""Folders that `FileOutput` publishes to, as a reader sees them."""

import json
import os
import re
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from ridgeline.cli.load import load_application
from ridgeline.testing import run_local
from support.crash.processes import committed


def visible(folder):
    """The published files below a folder: what a reader of data sets takes."""
    found = []
    for parent, folders, names in os.walk(folder):  # passes over folders that vanish meanwhile
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [
            Path(parent, name)
            for name in names
            if name.endswith((".parquet", ".jsonl")) and not name.startswith((".", "_"))
        ]
    return found


def read(path):
    """The rows of a published file, each as JSON text."""
    if path.suffix == ".parquet":
        return [json.dumps(row, default=str) for row in pq.read_table(path).to_pylist()]
    text = path.read_text()
    assert text.endswith("\n")
    return [json.dumps(json.loads(line)) for line in text.splitlines()]


def multisets(folder):
    """Of each output below a folder, its rows and how often each is there."""
    outputs = {}
    for path in visible(folder):
        outputs.setdefault(str(path.parent.relative_to(folder)), Counter()).update(read(path))
    return outputs


def check_published(output, windows, application, folder):
    """What lies in `output` is what a plain run of so many windows writes into `folder`/whole."""
    whole = folder / "whole"
    run_local(
        load_application(str(application), ["--output", str(whole)]),
        properties={"numbers.windows": str(windows)},
    )
    assert multisets(output) == multisets(whole)


def window_range(path):
    """The first and the last window in a published file."""
    first, last = re.fullmatch(r".*-(\d+)-(\d+)", path.stem).groups()
    return int(first), int(last)


class Reader(threading.Thread):
    """Reads files as soon as they appear, while a run is being killed over and over.

    `faults` lists what it should not have seen. A file that it has read must stay as it was; so if what lies
    there in the end is right, the reader never saw a row twice, nor one of a window that did not come to be.
    """

    def __init__(self, folder, checkpoint, last=committed):
        """`last(checkpoint)`: the last committed window."""
        super().__init__(daemon=True)
        self.faults = []
        self.files = {}
        self._folder, self._checkpoint, self._last = folder, checkpoint, last
        self._over = threading.Event()

    def run(self):
        try:
            while not self._over.is_set():
                self.look()
                time.sleep(0.02)
        except Exception as error:  # noqa: BLE001  reported by `finish`
            self.faults.append(f"{type(error).__name__}: {error}")

    def look(self):
        for path in visible(self._folder):
            if path in self.files:
                continue
            rows = Counter(read(path))
            first, last = window_range(path)
            durable = self._last(self._checkpoint)
            if last > durable:
                self.faults.append(
                    f"{path.name} shows window {last}; window {durable} was the last committed"
                )
            for other in self.files:
                before = window_range(other)
                if other.parent == path.parent and first <= before[1] and before[0] <= last:
                    self.faults.append(f"{path.name} holds windows of {other.name}")
            self.files[path] = rows

    def finish(self):
        """Stop; look at everything once more."""
        self._over.set()
        self.join()
        self.look()
        assert set(self.files) == set(visible(self._folder)), "a published file has gone"
        for path, rows in self.files.items():
            assert Counter(read(path)) == rows, f"{path.name} has changed"
        assert not self.faults, self.faults
