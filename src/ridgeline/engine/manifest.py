"""The window manifest: its existence is the commit of a window."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ridgeline.api.errors import CheckpointError
from ridgeline.plan.protocol import WindowReport

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is durable as of a window.

    `states`: names of state files by state key; `finished`: state keys of inputs that have finished; `publishers`: the publishers' states
    by operator name; `ended`: the application has come to its end; `reports`: a digest of the containers' reports.
    """

    window_id: int
    epoch: int
    plan_version: int
    states: Mapping[str, Sequence[str]]
    finished: Sequence[str]
    publishers: Mapping[str, Any]
    ended: bool
    reports: str
    format: int = FORMAT

    def encode(self) -> bytes:
        """As JSON with a checksum."""
        body = json.dumps(asdict(self), separators=(",", ":"))
        return f'{{"crc32":{zlib.crc32(body.encode())},"manifest":{body}}}\n'.encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> Manifest:
        """From JSON. Raises CheckpointError naming the file if it is corrupt or of a later format."""
        try:
            text = data.decode()
            document = json.loads(text)
            body = text[text.index('"manifest":') + len('"manifest":') : text.rindex("}")]
            intact = zlib.crc32(body.encode()) == document["crc32"]
            content = document["manifest"]
        except (ValueError, KeyError, TypeError) as error:
            msg = f"manifest `{where}` is corrupt: {error}; restore it from a copy"
            raise CheckpointError(msg) from error
        if not intact:
            msg = f"manifest `{where}` is corrupt: its checksum differs; restore it from a copy"
            raise CheckpointError(msg)
        if content["format"] != FORMAT:
            msg = f"manifest `{where}` has format {content['format']}; this version reads {FORMAT}; run it with the version that wrote it"
            raise CheckpointError(msg)
        return cls(**content)


def digest(reports: Sequence[WindowReport]) -> str:
    """A short digest of who reported what: containers, attempts and tuple counts."""
    text = ";".join(
        f"{report.container}:{report.tag}:" + ",".join(f"{op.id}={op.tuples_in}/{op.tuples_out}" for op in report.operators)
        for report in sorted(reports, key=lambda report: report.container)
    )
    return f"{zlib.crc32(text.encode()):08x}"
