"""Takes back what a `FileOutput` has published after a window to which its run was rewound.

It is done at every start that finds it in the state, so every step may be the last one before a crash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.errors import RidgelineError
from ridgeline.api.publisher import PublisherContext
from ridgeline.connect.output_files import OutputFiles, SummedStream


class Published(NamedTuple):
    """A published file: its name in the output's folder, and its windows."""

    name: str
    first: int
    last: int


def published(files: OutputFiles, prefix: str, format: str = "(?:parquet|jsonl)") -> list[Published]:
    """The published files of a run that are there. Raises OSError."""
    pattern = re.compile(rf"{re.escape(prefix)}-(\d+)-(\d+)\.{format}")
    found = [(name, pattern.fullmatch(name)) for name in files.names(files.root)]
    return [Published(name, int(windows[1]), int(windows[2])) for name, windows in found if windows]


class Rewound:
    """A rewind, as a state has it: back from window `from` to window `to`.

    `rows`: the windows whose rows were not published as of `to`, each with how many there were. None: the
    output was not there then, so a file with rows of both is not its own.
    """

    def __init__(self, to: int, rows: Sequence[Sequence[int]] | None, **windows: int) -> None:
        self.to, self.rows = to, rows
        self.last = windows["from"]


def take_back(
    files: OutputFiles, folder: str, prefix: str, format: str, rewound: Rewound, context: PublisherContext
) -> None:
    """Remove published files of windows after `to`, and cut the one that has rows of both.

    `prefix`: with it the names of the files begin. Files that readers have taken away are theirs. Raises
    RidgelineError if a file to be cut is not as it was published, FencedError, OSError.
    """
    for file in published(files, prefix, format):
        if not rewound.to < file.last <= rewound.last:
            continue
        if file.first <= rewound.to:
            if rewound.rows is None:
                continue
            kept = [(window, rows) for window, rows in rewound.rows if window >= file.first]
            last = kept[-1][0] if kept else rewound.to
            unfinished = f"{folder}/merged-e{context.epoch}.tmp"
            _cut(files, f"{files.root}/{file.name}", unfinished, sum(rows for _, rows in kept))
            files.move(unfinished, f"{folder}/rewound-{prefix}-{file.first:010d}-{last:010d}.{format}")
            files.sync(folder)
        context.check_owner()
        files.delete(f"{files.root}/{file.name}")
    files.sync(files.root)
    for name in files.names(folder):
        if name.startswith("rewound-"):
            target = f"{files.root}/{name.removeprefix('rewound-')}"
            context.check_owner()
            files.move(f"{folder}/{name}", target)
            files.sync(files.root)


def _cut(files: OutputFiles, source: str, target: str, rows: int) -> None:
    """Write the first rows of a file into another one."""
    with files.writing(target) as out:
        found = _cut_parquet(files, source, out, rows) if source.endswith(".parquet") else 0
        if not source.endswith(".parquet"):
            with files.reading(source) as stream:
                rest = b""
                while found < rows and (chunk := stream.read(1 << 20)):
                    lines = (rest + chunk).split(b"\n")
                    rest = lines.pop()
                    taken = lines[: rows - found]
                    out.write(b"".join(line + b"\n" for line in taken))
                    found += len(taken)
    if found < rows:
        raise RidgelineError(
            f"`{source}` has {found} rows of windows up to that to which the run was rewound, it was "
            f"published with {rows}; restore the file from a copy and start again, or delete it"
        )


def _cut_parquet(files: OutputFiles, source: str, out: SummedStream, rows: int) -> int:
    """The same for Parquet, by row groups; returns how many rows there were of those wanted."""
    found = 0
    with (
        pq.ParquetFile(pa.BufferReader(files.read(source))) as file,
        pq.ParquetWriter(out, file.schema_arrow, compression="zstd") as writer,
    ):
        for group in range(file.num_row_groups):
            if found < rows:
                table = file.read_row_group(group, use_threads=False).slice(0, rows - found)
                writer.write_table(table)
                found += table.num_rows
    return found
