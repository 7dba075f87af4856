"""The manifest: what is durable as of a window. The journal holds its differences, one record a window."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ridgeline.engine.driver.checkpoint.kept_properties import NOTHING_KEPT, KeptProperties
from ridgeline.plan.protocol import StateVersion, WindowReport


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """Where the Spark sources of a window ended: what Spark's own log must say after it (`offset_log`).

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
    """The durable state of a run as of a window.

    `states`: names of state files by state key. `finished`: state keys of inputs that have finished.
    `publishers`: the publishers' states by operator name, as JSON. `ended`: the application has come to its
    end. `reports`: a digest of the containers' reports. `offsets`: where the window's Spark sources ended,
    None without one. `properties`: what the application was given from outside for this window. `edits`: what
    changes of the running application have made of its plan, as `edit_to_json` writes them. `divided`: how
    tuples are divided among partitions, by operator, as `divisions` says it. `rewound_to`: the window that
    this one repeats, where the run was rewound to it. `outputs`: which outputs published the window, and
    where, as `Outputs.places` says it. `schemas`: what the states hold (`state_schemas`). `inputs`: where the
    inputs that have an `Enumerator` ended, by operator name, as JSON. `passed_over`: how many numbers of
    windows rewinds have left out so far.
    """

    window_id: int
    epoch: int
    plan_version: int
    states: Mapping[str, StateVersion]
    finished: Sequence[str]
    publishers: Mapping[str, object]
    ended: bool
    reports: str
    offsets: SourceOffsets | None = None
    properties: KeptProperties = NOTHING_KEPT
    edits: Sequence[Mapping[str, Any]] = ()
    divided: Mapping[str, str] = field(default_factory=dict)
    rewound_to: int | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    schemas: Mapping[str, Any] = field(default_factory=dict)
    passed_over: int = 0
    inputs: Mapping[str, object] = field(default_factory=dict)

    def picture(self) -> dict[str, Any]:
        """As JSON values. Versions are shared, not copied."""
        kept: dict[str, Any] = {"properties": self.properties.picture()} if self.properties else {}
        if self.edits:
            kept["edits"] = list(self.edits)
        if self.divided:
            kept["divided"] = self.divided
        if self.rewound_to is not None:
            kept["rewound_to"] = self.rewound_to
        if self.outputs:
            kept["outputs"] = self.outputs
        if self.schemas:
            kept["schemas"] = self.schemas
        if self.inputs:
            kept["inputs"] = json.loads(json.dumps(self.inputs))
        if self.passed_over:
            kept["passed_over"] = self.passed_over
        return kept | {
            "window_id": self.window_id,
            "epoch": self.epoch,
            "plan_version": self.plan_version,
            "states": dict(self.states),
            "finished": list(self.finished),
            "publishers": json.loads(json.dumps(self.publishers)),
            "ended": self.ended,
            "reports": self.reports,
            "offsets": None if self.offsets is None else asdict(self.offsets),
        }

    @classmethod
    def of(cls, picture: Mapping[str, Any]) -> Manifest:
        """From what `picture` gave. Raises TypeError or LookupError if it is another thing."""
        offsets, kept = picture["offsets"], picture.get("properties", {})
        states = {key: tuple(names) for key, names in picture["states"].items()}
        return cls(
            **{
                **picture,
                "states": states,
                "offsets": None if offsets is None else SourceOffsets(**offsets),
                "properties": KeptProperties.of(kept),
                "edits": tuple(picture.get("edits", ())),
                "divided": dict(picture.get("divided", {})),
            }
        )


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
