"""What readers see of an output's folder, checked whenever a name in it has changed."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from support.simulation.disk import Disk
from support.simulation.output_files import FOLDER

if TYPE_CHECKING:
    from support.simulation.ledger import Ledger

_NAME = re.compile(r"output-\w+-(\d+)-(\d+)\.(jsonl|parquet)")

_MARKER = re.compile(r"/published-(\d+)$")


class Readers:
    """They look after each change; they may take files away, and know what they have seen."""

    def __init__(self, disk: Disk, ledger: Ledger) -> None:
        self._disk = disk
        self._ledger = ledger
        self.seen: dict[str, list[int]] = {}
        """By file, for ever."""
        self._file_of: dict[int, str] = {}
        self._taken: set[str] = set()
        self._void: set[str] = set()
        """Files of rows that a rewind has made void: they may be there until the next start."""

    def look(self, path: str) -> None:
        """A name has changed."""
        folder, _, name = path.rpartition("/")
        if folder == FOLDER and path in self._disk.names:
            self._read(name)

    def look_again(self) -> None:
        """After a power cut all may be another thing."""
        for name in sorted(self._disk.folders.get(FOLDER, set()) - self._void):
            self._read(name)

    def rewound(self, left: set[int]) -> None:
        """Of all that was there only these numbers stay. A file that has others goes at the next start.

        What it has of these is in another one then.
        """
        before = self.seen
        self.seen = {name: numbers for name, numbers in before.items() if left.issuperset(numbers)}
        self._void |= before.keys() - self.seen.keys()
        self._file_of = {number: name for name, numbers in self.seen.items() for number in numbers}

    def take(self) -> None:
        """Take all files away whose marker is on the disk.

        Earlier a driver that dies may have to publish one again, or misses the segment that it was made of.
        """
        markers = [found for one in self._disk.safe_names if (found := _MARKER.search(one))]
        marker = max((int(found[1]) for found in markers), default=-1)
        for name in sorted(self._disk.folders.get(FOLDER, ())):
            if (found := _NAME.fullmatch(name)) and int(found[2]) <= marker:
                self._taken.add(name)
                self._disk.link(f"{FOLDER}/{name}", None)

    def _read(self, name: str) -> None:
        violate: Callable[[str], object] = self._ledger.violate
        found = _NAME.fullmatch(name)
        if found is None:
            violate(f"readers see `{name}`")
            return
        data = bytes(self._disk.names[f"{FOLDER}/{name}"].data)
        try:
            numbers = _numbers(data, found[3])
        except Exception as error:  # noqa: BLE001  whatever a reader may come to
            violate(f"readers cannot read `{name}`: {error!r}")
            return
        if (known := self.seen.get(name)) is not None:
            if numbers != known:
                violate(f"readers saw {known} in `{name}`, see {numbers} now")
            return
        for number in numbers:
            if (other := self._file_of.setdefault(number, name)) != name:
                violate(f"readers see {number} in `{name}`, saw it in `{other}`")
        if len(set(numbers)) < len(numbers):
            violate(f"readers see numbers twice in `{name}`: {numbers}")
        self._ledger.check_file(name, int(found[1]), int(found[2]), numbers)
        self.seen[name] = numbers

    def check_end(self, wanted: Sequence[int]) -> None:
        """The application has ended: they have seen these numbers, and what they have not taken is there."""
        if (found := sorted(self._file_of)) != list(wanted):
            self._ledger.violate(f"readers have seen at the end: {found}")
        there = self._disk.folders.get(FOLDER, set())
        if gone := sorted(self.seen.keys() - self._taken - there):
            self._ledger.violate(f"readers saw {gone}, which nobody took: gone at the end")
        for name in sorted(there):
            ending = name.rpartition(".")[2]
            for number in _numbers(bytes(self._disk.names[f"{FOLDER}/{name}"].data), ending):
                if (other := self._file_of.get(number)) != name:
                    self._ledger.violate(f"{number} is in `{name}` at the end, and in `{other}`")


def _numbers(data: bytes, format: str) -> list[int]:
    if format == "parquet":
        column: list[int] = pq.read_table(io.BytesIO(data)).column("value").to_pylist()
        return sorted(column)
    if not data.endswith(b"\n"):
        raise ValueError("the last line has no end")
    return sorted(json.loads(line)["value"] for line in data.splitlines())
