"""The manifest: what is durable as of a window. The journal holds its differences, one record a window."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

from ridgeline.plan.protocol import StateVersion

# Properties that a checkpoint keeps: what its runs were given from outside, beside the application's own.
#
# They are part of each window's manifest, so they are those that the last committed window was computed with.
# A run that commits no window keeps nothing.


@dataclass(frozen=True, slots=True)
class KeptProperties:
    """The properties that runs of a checkpoint were given, by `operator.property`.

    `values`: as they were given, JSON values. `withheld`: names of those that are not kept, such as secrets.
    """

    values: Mapping[str, object] = field(default_factory=dict)
    withheld: Sequence[str] = ()

    def picture(self) -> dict[str, Any]:
        """As JSON values; empty for none. Kept values are shared, not copied."""
        return {"values": self.values, "withheld": list(self.withheld)} if self else {}

    @classmethod
    def of(cls, picture: Mapping[str, Any]) -> KeptProperties:
        """From what `picture` gave. Raises LookupError if it is another thing."""
        return cls(dict(picture["values"]), tuple(picture["withheld"])) if picture else cls()

    def __bool__(self) -> bool:
        return bool(self.values or self.withheld)

    def beside(self, given: Collection[str]) -> KeptProperties:
        """Without the properties that are given again. A whole one takes the place of its entries too.

        >>> kept = KeptProperties({"in.options.topic": "a", "in.count": "5"}, ("in.options.password",))
        >>> kept.beside(["in.options"])
        KeptProperties(values={'in.count': '5'}, withheld=())
        """

        def stays(name: str) -> bool:
            parts = name.split(".")
            return not any(".".join(parts[:length]) in given for length in range(1, len(parts) + 1))

        values = {name: value for name, value in self.values.items() if stays(name)}
        return KeptProperties(values, tuple(filter(stays, self.withheld)))

    def joined(self, given: Mapping[str, object], withheld: Collection[str]) -> KeptProperties:
        """With the properties that are given again, without the values of those that are `withheld`.

        >>> KeptProperties({"sum.limit": "5"}).joined({"sum.limit": "6", "in.token": "x"}, ["in.token"])
        KeptProperties(values={'sum.limit': '6'}, withheld=('in.token',))
        """
        left = self.beside(given)
        added = {name: value for name, value in given.items() if name not in withheld}
        return KeptProperties({**left.values, **added}, (*left.withheld, *withheld))

    def without(self, operator: str) -> KeptProperties:
        """Without those of an operator, or of all in a module.

        >>> KeptProperties({"sum.limit": "5", "sums.limit": "6"}).without("sum")
        KeptProperties(values={'sums.limit': '6'}, withheld=())
        """
        inside = f"{operator}."
        values = {name: value for name, value in self.values.items() if not name.startswith(inside)}
        return KeptProperties(values, tuple(name for name in self.withheld if not name.startswith(inside)))

    def renamed(self, old: str, new: str) -> KeptProperties:
        """With those of an operator under its new name.

        >>> KeptProperties({"sum.limit": "5"}, ("sum.token",)).renamed("sum", "total")
        KeptProperties(values={'total.limit': '5'}, withheld=('total.token',))
        """

        def called(name: str) -> str:
            return f"{new}.{name[len(old) + 1 :]}" if name.startswith(f"{old}.") else name

        return KeptProperties(
            {called(name): value for name, value in self.values.items()}, tuple(map(called, self.withheld))
        )


NOTHING_KEPT = KeptProperties()


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
    properties: KeptProperties = NOTHING_KEPT
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
            "properties": KeptProperties.of(picture.get("properties", {})),
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
    "properties": KeptProperties.picture,
    "offsets": asdict,
}
"""How fields become JSON values; others are."""
_DEFAULTS: Mapping[str, object] = {
    one.name: one.default if one.default_factory is MISSING else one.default_factory()
    for one in fields(Manifest)
}
