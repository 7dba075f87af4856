"""The window manifest: its existence is the commit of a window."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ridgeline.api.errors import CheckpointError
from ridgeline.engine.state.sealed import seal, unseal
from ridgeline.plan.protocol import WindowReport

FORMAT = 3
FOLDER = "manifests"
_NAME = re.compile(r"\d{12}\.json")


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """Where the Spark sources of a window ended: what Spark's own log must say after it (see `spark_log`).

    `sources`: the operators' names in the query's order. `entry`: the text of the window's file in Spark's
    `offsets`. `metadata`: that of Spark's `metadata`. `files`: checksums, by name, of the files in Spark's
    `sources` that the next window depends on. `texts`: contents of the small ones of them.
    """

    sources: Sequence[str]
    entry: str
    metadata: str
    files: Mapping[str, int]
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is durable as of a window.

    `states`: names of state files by state key. `finished`: state keys of inputs that have finished.
    `publishers`: the publishers' states by operator name. `ended`: the application has come to its end.
    `reports`: a digest of the containers' reports. `offsets`: where the window's Spark sources ended, None
    without one.
    """

    window_id: int
    epoch: int
    plan_version: int
    states: Mapping[str, Sequence[str]]
    finished: Sequence[str]
    publishers: Mapping[str, object]
    ended: bool
    reports: str
    offsets: SourceOffsets | None = None
    format: int = FORMAT

    def encode(self, run_id: str) -> bytes:
        """As JSON with a checksum that covers the run's id."""
        return seal("manifest", run_id, asdict(self))

    @classmethod
    def decode(cls, data: bytes, run_id: str, window_id: int, where: str) -> Manifest:
        """From JSON.

        Raises CheckpointError naming the file if it is corrupt, of another format, run or window.
        """
        what = f"manifest `{where}`"
        content = unseal("manifest", run_id, data, what, FORMAT)
        if content["window_id"] != window_id:
            msg = (
                f"{what} is that of window {content['window_id']}, copied or renamed; restore it from a copy"
            )
            raise CheckpointError(msg)
        offsets = content["offsets"]
        return cls(**content | {"offsets": None if offsets is None else SourceOffsets(**offsets)})


def file_name(window_id: int) -> str:
    """The name of a window's manifest."""
    return f"{FOLDER}/{window_id:012d}.json"


def window_of(name: str) -> int | None:
    """The window of a manifest by the last part of its name; None for any other file."""
    return int(name[:12]) if _NAME.fullmatch(name) else None


def digest(reports: Sequence[WindowReport]) -> str:
    """A short digest of who reported what: containers, attempts and tuple counts."""
    text = ";".join(
        f"{report.window.container}:{report.window.task}:"
        + ",".join(
            f"{op.window.operator}={op.window.tuples_in}/{op.window.tuples_out}" for op in report.operators
        )
        for report in sorted(reports, key=lambda report: report.window.container)
    )
    return f"{zlib.crc32(text.encode()):08x}"
