"""The form of a specification, as pydantic models: JSON Schema is made from them."""

from __future__ import annotations

import contextlib
import copy
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import pydantic
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from ridgeline.api.errors import Fault, Faults, did_you_mean
from ridgeline.api.support.masking import shown

_UNKNOWN = "extra_forbidden"
_TAGS = {"text", "mapping", "one", "several"}
Values = dict[str, Any]
_Limit = float | int | str | None


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class AffinitySpec(_Section):
    """A rule that operators run together, or apart."""

    type: str
    """`AFFINITY` or `ANTI_AFFINITY`."""
    operators: list[str] = []
    """Two names or more; one name twice means its partitions."""
    pattern: str | None = None
    """A regular expression for whole names, in place of `operators`."""
    locality: str = "NODE_LOCAL"
    """What they share, or do not."""
    relax: bool = False
    """True gives the rule up where it cannot be kept."""
    hosts: list[str] = []
    """Hosts, or racks if the locality is RACK_LOCAL, that the rule is about."""


class PromiseSpec(_Section):
    """A promise of the application: its kind, and what the function of `ridgeline.sla` takes for it."""

    model_config = ConfigDict(extra="allow")

    kind: str
    """A function of `ridgeline.sla`, such as `latency` or `loss`."""


class DeciderSpec(_Section):
    """A policy, or a listener of an operator's figures: its class, and its properties."""

    class_: str = Field(alias="class")
    """The import path of its class: `payments.MoreWhenLate`."""
    properties: Values = {}
    """Values of its properties."""


class ComponentSpec(_Section):
    """What is made of a class, with its properties and attributes."""

    class_: str = Field(alias="class")
    """The import path of its class: `payments.Check`."""
    properties: Values = {}
    """Values of its properties."""
    attributes: Values = {}
    """Attributes of the operator, or of those in a module: `partitions: 3`."""


class PersistSpec(ComponentSpec):
    """An output operator that writes a stream down."""


class ModuleSpec(ComponentSpec):
    """A module; its attributes are those of the operators inside."""


class OperatorSpec(ComponentSpec):
    """An operator: its class, and what is set of it."""

    ports: dict[str, Values] = {}
    """Attributes of its ports, by port."""
    unifiers: dict[str, Values] = {}
    """Attributes of the unifiers of its output ports, by port."""
    stats_listeners: list[DeciderSpec] = []
    """Who sees its figures, and answers with changes of it."""


def _is_text(value: object) -> str:
    return "text" if isinstance(value, str) else "mapping"


Persist = Annotated[
    Annotated[str, Tag("text")] | Annotated[PersistSpec, Tag("mapping")], Discriminator(_is_text)
]


class SinkSpec(_Section):
    """One sink of a stream."""

    port: str
    """`operator.port`."""
    locality: str | None = None
    """Where its operator runs, if not as the stream says."""
    decoupled: bool = False
    """True: it reads the stream from a durable queue."""


def _is_one(value: object) -> str:
    return "several" if isinstance(value, list) else "one"


Sink = Annotated[Annotated[str, Tag("text")] | Annotated[SinkSpec, Tag("mapping")], Discriminator(_is_text)]
Sinks = Annotated[Annotated[Sink, Tag("one")] | Annotated[list[Sink], Tag("several")], Discriminator(_is_one)]


class StreamSpec(_Section):
    """A stream: one output port, one or more input ports."""

    from_: str = Field(alias="from")
    """The output port: `check.valid`."""
    to: Sinks
    """The input ports: `balances.payments`."""
    locality: str | None = None
    """Where the operators of the stream run."""
    persist: Persist | None = None
    """What writes the stream down: an output operator, or `operator.port`."""
    decoupled: bool = False
    """True: all sinks read the stream from a durable queue, in another region."""
    keep: _Limit = None
    """How long its queue keeps rows that were read: `"1h"`, the default."""

    def sinks(self) -> list[SinkSpec]:
        """All sinks in one form."""
        given = self.to if isinstance(self.to, list) else [self.to]
        return [SinkSpec(port=sink) if isinstance(sink, str) else sink for sink in given]


class RegionSpec(_Section):
    """A region, which decoupled streams make: operators that it is known by, and settings of its own."""

    operators: list[str]
    """Names of operators or modules in it; one is enough."""
    window: int | float | str | None = None
    """Width of its windows, if not as the application says."""
    attributes: Values = {}
    """Attributes of the application that have another value there."""


class Specification(_Section):
    """An application as a document: operators and streams under one name."""

    model_config = ConfigDict(title="A Ridgeline application")

    application: str
    """The name of the application."""
    description: str | None = None
    """What it is for, for readers of the file."""
    window: int | float | str = "500ms"
    """Width of a streaming window: `"200ms"`."""
    attributes: Values = {}
    """Attributes of the application."""
    operators: dict[str, OperatorSpec] = {}
    """The operators, by name."""
    modules: dict[str, ModuleSpec] = {}
    """The modules, by name."""
    streams: dict[str, StreamSpec] = {}
    """The streams, by name."""
    dead_letters: Persist | None = None
    """What takes the tuples that operators leave out: an output operator, or `operator.port`."""
    regions: dict[str, RegionSpec] = {}
    """Names and windows of the regions that decoupled streams make."""
    affinity: list[AffinitySpec] = []
    """Which operators run together, and which apart."""
    policies: list[DeciderSpec] = []
    """Who sees all figures, and decides on changes."""
    promises: list[PromiseSpec] = []
    """What the application keeps."""
    include: str | list[str] = []
    """Other specifications, relative to this file; what this one says wins."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a specification."""
    schema = Specification.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def check_document(document: Mapping[str, object], faults: Faults) -> Specification | None:
    """The specification, without what is faulty; None if too little is left. Adds all faults of its form."""
    try:
        return Specification.model_validate(document)
    except pydantic.ValidationError as error:
        problems = error.errors()
    sound: Any = copy.deepcopy(document)
    for problem in problems:
        path = list(_path(problem["loc"], document))
        # an unknown key is left out alone, else the operator, stream or section that the fault is in
        depth = len(path) if problem["type"] == _UNKNOWN else 2 if path[0] in _NAMED else 1
        with contextlib.suppress(LookupError, TypeError):  # it is gone already, with what it was in
            _drop(sound, path[:depth])
    faults += (_fault(problem, document) for problem in problems)
    try:
        return Specification.model_validate(sound)
    except pydantic.ValidationError:
        return None


def _drop(place: Any, path: list[str]) -> None:
    """Take away what a path leads to, of mappings and lists."""
    for part in path[:-1]:
        place = place[int(part) if isinstance(place, list) else part]
    del place[path[-1]]


_NAMED = ("operators", "modules", "streams", "regions")


def _fault(problem: Any, document: Mapping[str, object]) -> Fault:
    """One of pydantic's errors as a fault."""
    path = list(_path(problem["loc"], document))
    where = ".".join(path)
    kind, value = problem["type"], problem["input"]
    if kind == _UNKNOWN:
        keys = list(_keys_at(path[:-1]))
        remedy = did_you_mean(path[-1], keys) if keys else "remove it"
        return Fault(where, f"there is no key `{path[-1]}` here", remedy)
    if kind == "missing":
        return Fault(where, f"`{path[-1]}` is missing", f"give it: {_HELP.get(path[-1], 'see the format')}")
    rule = problem["msg"][0].lower() + problem["msg"][1:].replace("dictionary", "mapping")
    rule = rule.partition(" or instance of ")[0]
    what = f"{rule}; got {shown(where, value)}"
    return Fault(where, what, _HELP.get(path[-1], "give a value of that type"))


def _path(loc: tuple[Any, ...], document: object) -> Iterator[str]:
    """Where it is in the document: pydantic's own words for alternatives are left out."""
    place: object = document
    for number, part in enumerate(loc):
        inside = isinstance(place, dict) and part in place
        last = number == len(loc) - 1
        if not inside and (part in _TAGS or (part in {"str", "int", "float", "list[str]"} and last)):
            continue
        yield str(part)
        if isinstance(place, dict):
            place = place.get(part)
        elif isinstance(place, list) and isinstance(part, int) and part < len(place):
            place = place[part]


def _keys_at(path: list[str]) -> list[str]:
    """The keys that a place of the document may have."""
    fields = Specification.model_fields
    for part in path:
        found = [one for name, one in fields.items() if (one.alias or name) == part]
        model = next((model for one in found for model in _models(one.annotation)), None)
        fields = fields if model is None else model.model_fields
    return [field.alias or name for name, field in fields.items()]


def _models(kind: Any) -> Iterator[type[_Section]]:
    """The sections that a value of a type is, or holds."""
    if isinstance(kind, type) and issubclass(kind, _Section):
        yield kind
    for part in typing.get_args(kind):
        yield from _models(part)


_SECTIONS: list[type[_Section]] = [*_Section.__subclasses__(), OperatorSpec]
_HELP = {
    field.alias or name: (field.description or "").rstrip(".")
    for part in _SECTIONS
    for name, field in part.model_fields.items()
}
"""What a key is for; of keys in several sections in the one that is declared last."""
