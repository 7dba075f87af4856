"""Layers of configuration: values for applications from outside, their sources, and their form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ridgeline.api.errors import Fault, did_you_mean

Only = Literal["", "property", "attribute"]
PACKAGE = "package"
"""The layer of what a package brings."""
SECTIONS = ("application", "operator", "run", "stream")
_WITH_NAMES = ("operator", "stream")
_REMEDY = "write `operator.NAME.PROPERTY`, `operator.NAME.ATTRIBUTE`, or `application.ATTRIBUTE`"


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The values of one source, by key: `operator.sum.partitions`.

    `name`: which layer it is, "user file". `origin`: what a user reads: a file, `-D`. Of two `values` that
    say the same the later one counts. `strict`: a key that names nothing is a fault. `only`: whether what it
    says of operators are properties or attributes; "": both.
    `places`: where each key is set, if not in `origin`.
    """

    name: str
    origin: str
    values: Mapping[str, Any]
    strict: bool = True
    only: Only = ""
    places: Mapping[str, str] = field(default_factory=dict)

    def place(self, key: str) -> str:
        """The place where a key is set, as a user reads it."""
        return self.places.get(key, self.origin)


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """One value of a layer. `level` and `position` order settings: of layers, and within one.

    `section`: one of `SECTIONS`. `application`: the name or wildcard that it is for, "" for all. `path`: what
    follows, such as `sum.partitions`.
    """

    layer: Layer
    level: int
    position: int
    key: str
    value: Any
    section: str
    application: str
    path: str

    @property
    def place(self) -> str:
        """The place where it is set, as a user reads it."""
        return self.layer.place(self.key)

    def fault(self, what: str, remedy: str) -> Fault:
        """A fault of this setting, with its place."""
        return Fault(self.key, f"{what} ({self.place})", remedy)


class KeyFaultError(Exception):
    """A key of no form that is read: what is wrong, and what to do."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


def read_layers(layers: Sequence[Layer], faults: list[Fault]) -> Iterator[Setting]:
    """The settings of layers, the lowest first; adds a fault for each key that is no key of configuration."""
    for level, layer in enumerate(layers):
        for position, (key, value) in enumerate(layer.values.items()):
            try:
                section, application, path = parse_key(key)
            except KeyFaultError as error:
                faults.append(Fault(key, f"{error.what} ({layer.place(key)})", error.remedy))
                continue
            yield Setting(layer, level, position, key, value, section, application, path)


def parse_key(key: str) -> tuple[str, str, str]:
    """The section of a key, the application that it is for ("" for all), and the rest.

    Raises KeyFaultError.

    >>> parse_key("operator.sum.partitions"), parse_key("application.shop.operator.*.memory_mb")
    (('operator', '', 'sum.partitions'), ('operator', 'shop', '*.memory_mb'))
    >>> parse_key("application.windows_kept")
    ('application', '', 'windows_kept')
    """
    section, _, path = key.partition(".")
    if section not in SECTIONS:
        raise KeyFaultError(
            f"there is no key `{section}` in a configuration", did_you_mean(section, SECTIONS)
        )
    application = ""
    if section == "application":
        section, application, path = _of_application(key, path)
    name, _, rest = path.partition(".")
    if not name or (section in _WITH_NAMES and not rest):
        raise KeyFaultError(f"`{key}` names no value", _REMEDY)
    return section, application, path


def _of_application(key: str, path: str) -> tuple[str, str, str]:
    """Section, application and path of what follows `application.`. Raises KeyFaultError."""
    name, _, rest = path.partition(".")
    if not rest:
        return "application", "", name
    if name == "attr":
        return "application", "", rest
    inner, _, path = rest.partition(".")
    if inner in _WITH_NAMES:
        return inner, name, path
    if not path or inner == "attr":
        return "application", name, path or inner
    raise KeyFaultError(
        f"`{key}` says nothing of application `{name}`",
        f"write `application.{name}.operator.NAME...`, or `application.{name}.ATTRIBUTE`",
    )


def is_mark(value: object) -> bool:
    """True for what stands for a value, such as `{$env: PASSWORD}`."""
    return isinstance(value, dict) and len(value) == 1 and str(next(iter(value))).startswith("$")


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a document by dotted key, in its order; of what is there twice the later one.

    Lists are values, and so are empty mappings, and marks such as `{$env: NAME}`.

    >>> flat({"operator": {"sum": {"partitions": 2}}, "operator.sum.options": {"a.b": [1]}})
    {'operator.sum.partitions': 2, 'operator.sum.options.a.b': [1]}
    """
    found: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [*document.items()][::-1]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict) and value and not is_mark(value):
            waiting += [(f"{key}.{name}", part) for name, part in [*value.items()][::-1]]
        else:
            found.pop(key, None)
            found[key] = value
    return found


def configured_value(value: object, environment: Mapping[str, str]) -> object:
    """A value with its marks read; code may not be named. Raises ValueFaultError."""
    from ridgeline.plan.spec.values import ENVIRONMENT, IMPORT, ValueFaultError, read_value

    if isinstance(value, dict) and IMPORT in value:
        raise ValueFaultError(
            f"`{IMPORT}` names code, which a configuration may not",
            f"name it in the specification; here `{ENVIRONMENT}` is read",
        )
    if isinstance(value, list):
        return [configured_value(part, environment) for part in value]
    return read_value(value, environment)
