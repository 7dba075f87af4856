"""Every value of an application with where it was set, and the values that it overrides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic.fields import FieldInfo

from ridgeline.api.application import Application
from ridgeline.api.attributes import attributes_of
from ridgeline.api.errors import Faults
from ridgeline.api.operator import operator_type
from ridgeline.api.support.attribute import Scope
from ridgeline.api.support.masking import MASK, is_secret_type, mask
from ridgeline.api.support.properties import property_types
from ridgeline.plan.build.port_attributes import inherited_by_operator
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.modules.expanding import expand
from ridgeline.plan.overrides import WINDOW
from ridgeline.plan.shown_properties import plain, shown_properties
from ridgeline.settings.layers import Setting, is_mark
from ridgeline.settings.resolving import CONF, Resolved, RunOptions

DEFAULT = "default"
CODE = "code"
_INHERITED = "application"


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value as it is shown, secrets masked; its layer, and the place where it was set."""

    value: object
    layer: str
    place: str


@dataclass(frozen=True, slots=True)
class Row:
    """One value by its key in a configuration; `overridden`: the others, those that count more first.

    `operator`: whose value it is; "" for the application and the run.
    """

    key: str
    effective: SourcedValue
    overridden: tuple[SourcedValue, ...] = ()
    operator: str = ""

    def to_json(self) -> dict[str, Any]:
        """The value, and what it stands in the place of, as the web service answers them."""
        overridden = list(map(asdict, self.overridden))
        return {"key": self.key, "operator": self.operator, **asdict(self.effective), "insteadOf": overridden}


def rows(app: Application, resolved: Resolved, logical: LogicalPlan, source: str = CODE) -> Iterator[Row]:
    """All values of a valid application. `source`: the layer of its own, "code" or "specification"."""
    yield from _Lister(app, resolved, logical, source).rows()


def run_rows(run: RunOptions) -> Iterator[Row]:
    """The options of a run that are configured."""
    for key, settings in run.settings.items():
        name = key.removeprefix(f"{CONF}.")
        found = [_sourced(one, name) for one in settings]
        yield Row(f"run.{key}", found[0], tuple(found[1:]))


class _Lister:
    def __init__(self, app: Application, resolved: Resolved, logical: LogicalPlan, source: str) -> None:
        self._app = app
        self._resolved = resolved
        self._logical = logical
        self._source = source
        self._graph = expand(Faults(), app, resolved.properties).graph

    def rows(self) -> Iterator[Row]:
        """Of the application, its operators, their ports, streams and modules."""
        values = {WINDOW: self._logical.window_seconds, **self._logical.attributes}
        of_application = {WINDOW: self._app.window, **self._app.attributes}
        for name, value in values.items():
            yield self._row(f"application.{name}", "attribute", name, value, of_application)
        for node in self._graph.nodes.values():
            operator = self._logical.operator(node.name)
            yield from self._properties(operator.name, operator.operator, vars(node.operator))
            given = node.attributes
            inherited = inherited_by_operator(self._logical.attributes)
            for name, value in operator.attributes.items():
                key = f"{operator.name}.{name}"
                yield self._row(f"operator.{key}", "attribute", key, value, given, inherited, operator.name)
            sides = (
                ("port", operator.ports, node.ports),
                ("unifier", operator.unifiers, node.unifiers),
            )
            for kind, ports, given_to in sides:
                for port, of_port in ports.items():
                    given = given_to.get(port, {})
                    for name, value in of_port.items():
                        key = f"{operator.name}.{kind}.{port}.{name}"
                        if name in given or ("attribute", key) in self._resolved.choices:
                            yield self._row(
                                f"operator.{key}", "attribute", key, value, given, operator=operator.name
                            )
        for name, part in self._graph.parts.items():
            yield from self._properties(name, part.module, {})
        yield from self._streams()

    def _properties(self, name: str, component: Any, written: Mapping[str, Any]) -> Iterator[Row]:
        """The properties of an operator or a module, and the entries of them that are configured."""
        kinds = property_types(type(component))
        shown = shown_properties(component)
        known = attributes_of(Scope.OPERATOR)
        defaults = operator_type(type(component)).properties
        passed = written.get("_given", {})
        for one, value in shown.items():
            key = f"{name}.{one}"
            in_file = f"operator.{name}.prop.{one}" if one in known else f"operator.{key}"
            is_given = one in passed or (one in written and written[one] != _default(defaults[one]))
            secret = is_secret_type(kinds[one])
            yield self._row(
                in_file,
                "property",
                key,
                MASK if secret and value is not None else value,
                {one: written[one]} if is_given and one in written else {},
                operator=name,
                secret=secret,
            )
            for kind, entry in self._resolved.choices:
                if kind == "property" and entry.startswith(f"{key}."):
                    settings = self._resolved.choices[kind, entry]
                    found = [_sourced(choice.setting, entry, secret=secret) for choice in settings]
                    yield Row(f"operator.{entry}", found[0], tuple(found[1:]), name)

    def _streams(self) -> Iterator[Row]:
        for kind, key in self._resolved.choices:
            if kind == "attribute" and key.startswith("stream."):
                found = [_sourced(choice.setting, key) for choice in self._resolved.choices[kind, key]]
                yield Row(key, found[0], tuple(found[1:]))

    def _row(
        self,
        key: str,
        kind: str,
        plan_key: str,
        value: object,
        given: Mapping[str, Any],
        inherited: Mapping[str, Any] | None = None,
        operator: str = "",
        *,
        secret: bool = False,
    ) -> Row:
        """A row with the value that the plan has, and all that it overrides."""
        name = key.rpartition(".")[2]
        below = []
        if name in given:
            below.append(SourcedValue(_shown(name, given[name], secret=secret), self._source, self._source))
        choices = self._resolved.choices.get((kind, plan_key), ())
        found = [_sourced(choice.setting, name, secret=secret) for choice in choices] + below
        shown = value if kind == "property" else _shown(name, value)
        if choices and is_mark(choices[0].setting.value):
            shown = choices[0].setting.value
        if not found:
            taken_over = inherited is not None and name in inherited and self._is_set(name)
            origin = _INHERITED if taken_over else DEFAULT
            return Row(key, SourcedValue(shown, origin, origin), (), operator)
        return Row(key, SourcedValue(shown, found[0].layer, found[0].place), tuple(found[1:]), operator)

    def _is_set(self, name: str) -> bool:
        """True if an attribute of the application was set."""
        return name in self._app.attributes or ("attribute", name) in self._resolved.choices


def _default(declared: object) -> object:
    """The default of a property as its class declares it."""
    return declared.get_default(call_default_factory=True) if isinstance(declared, FieldInfo) else declared


def _sourced(setting: Setting, name: str, *, secret: bool = False) -> SourcedValue:
    value = _shown(name, setting.value, secret=secret)
    return SourcedValue(value, setting.layer.name, setting.place)


def _shown(name: str, value: object, *, secret: bool = False) -> object:
    """A value as it is shown; what only names a secret, such as `{$env: PASSWORD}`, is not masked."""
    if is_mark(value):
        return value
    if secret and value is not None:
        return MASK
    return plain(mask(name, getattr(value, "name", value)))


def unused_by_layer(settings: Sequence[Setting]) -> dict[str, list[str]]:
    """The keys that name nothing of the application, by the place of their layer."""
    found: dict[str, list[str]] = {}
    for setting in settings:
        found.setdefault(setting.layer.origin, []).append(setting.key)
    return found
