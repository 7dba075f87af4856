"""The manifest: what is durable as of a window. The journal holds its differences, one record a window."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

from ridgeline.plan.protocol import StateVersion

Properties = Mapping[str, Sequence[object]]
"""What runs of a checkpoint were given from outside, by `operator.property`, beside the application's own.

Each is a list of the one JSON value; an empty list is of one that is not kept, such as a secret. They are in
each window's manifest, so they are those that the last committed window was computed with.
"""


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """Where the Spark sources of a window ended: what Spark's own log must say after it (`offset_log`).

    `batch`: Spark's number of the micro-batch; a large one is cut into several windows. `waiting`: rows of it
    that are in none yet. `sources`: the operators' names in the query's order. `entry`: the text of its file
    in Spark's `offsets`. `metadata`: that of Spark's `metadata`. `files`: checksums, by name, of the files in
    Spark's `sources` that the next window depends on. `texts`: contents of the small ones of them.
    """

    sources: Sequence[str]
    entry: str
    metadata: str
    files: Mapping[str, int]
    texts: Mapping[str, str]
    batch: int
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """The durable state of a run as of a window.

    `states`: names of state files by state key. `finished`: state keys of inputs that have finished.
    `publishers`: the publishers' states by operator name, as JSON. `ended`: the application has come to its
    end. `offsets`: where the window's Spark sources ended,
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
    offsets: SourceOffsets | None = None
    properties: Properties = field(default_factory=dict)
    edits: Sequence[Mapping[str, Any]] = ()
    divided: Mapping[str, str] = field(default_factory=dict)
    rewound_to: int | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    schemas: Mapping[str, Any] = field(default_factory=dict)
    passed_over: int = 0
    inputs: Mapping[str, object] = field(default_factory=dict)

    @property
    def files(self) -> Iterator[str]:
        """The names of the state files that it needs; those that versions share more than once."""
        return (name for version in self.states.values() for name in version)

    def picture(self) -> dict[str, Any]:
        """As JSON values, without what is as by default. Versions are shared, not copied."""
        return {
            name: _PLAIN.get(name, _itself)(value)
            for name, default in _DEFAULTS.items()
            if (value := getattr(self, name)) != default
        }

    @classmethod
    def of(cls, picture: Mapping[str, Any]) -> Manifest:
        """From what `picture` gave. Raises TypeError or LookupError if it is another thing."""
        offsets = picture.get("offsets")
        made = {
            "states": {key: tuple(names) for key, names in picture["states"].items()},
            "offsets": None if offsets is None else SourceOffsets(**offsets),
            "edits": tuple(picture.get("edits", ())),
        }
        return cls(**{**picture, **made})


def _itself(value: Any) -> Any:
    return value


def _as_json(value: object) -> Any:
    """With keys and lists as they are after a restart."""
    return json.loads(json.dumps(value))


_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "states": dict,
    "finished": list,
    "edits": list,
    "publishers": _as_json,
    "inputs": _as_json,
    "offsets": asdict,
}
"""How fields become JSON values; others are."""
_DEFAULTS: Mapping[str, object] = {
    one.name: one.default if one.default_factory is MISSING else one.default_factory()
    for one in fields(Manifest)
}
