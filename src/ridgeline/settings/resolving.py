"""Resolve layers of configuration: one value for each property and attribute, and its source.

A higher layer wins. Within a layer what is said of one application wins over what is said of all. Among these
an operator's name wins over that of its module, and any name over a wildcard. Else the later one wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ridgeline.api.application import Application
from ridgeline.api.attributes import attributes_of
from ridgeline.api.errors import Fault, ValidationError, did_you_mean
from ridgeline.api.support.attribute import Scope
from ridgeline.plan.spec.values import ValueFaultError
from ridgeline.settings.layers import PACKAGE, Layer, Setting, configured_value, read_layers
from ridgeline.settings.targets import AmbiguousError, Target, Targets, is_wild, matching, meaning

_NAMED, _WILD = 1, 0
_MOST_ROUNDS = 20
"""More than there can be modules inside each other."""
CONF = "conf"
Rank = tuple[Any, ...]
Kind = str


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of one setting, and its priority."""

    rank: Rank
    setting: Setting


@dataclass(slots=True, eq=False)
class Resolved:
    """The configuration of an application, resolved.

    `properties`, `attributes`: as the plan takes them. `choices`: by kind and key of the plan, all that was
    said of it, what counts first. `unused`: what names nothing of this application. `faults`: found so far.
    """

    application: str
    properties: dict[str, object] = field(default_factory=dict)
    attributes: dict[str, object] = field(default_factory=dict)
    choices: dict[tuple[Kind, str], list[Choice]] = field(default_factory=dict)
    unused: list[Setting] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Add the faults of the configuration, and the places of its values, to those of the application.

        Raises ValidationError with all of them; also where the application itself has none.
        """
        try:
            yield
        except ValidationError as error:
            found = [self._placed(fault) for fault in error.faults]
            raise ValidationError(error.application, [*self.faults, *found]) from None
        if self.faults:
            raise ValidationError(self.application, self.faults)

    def _placed(self, fault: Fault) -> Fault:
        """A fault of a value that configuration gave says where."""
        key = fault.where
        while key:
            for kind in ("property", "attribute"):
                choices = self.choices.get((kind, key))
                if choices and not choices[0].setting.layer.only:
                    return Fault(fault.where, f"{fault.what} ({choices[0].setting.place})", fault.remedy)
            key = key.rpartition(".")[0]
        return fault


def resolve(
    app: Application, layers: Sequence[Layer], environment: Mapping[str, str] | None = None
) -> Resolved:
    """One value for each property and attribute of which layers, the lowest first, say something.

    `environment`: what `$env` in a value reads; default: that of this process. Nothing is raised: faults are
    in the result, see `Resolved.reporting`.
    """
    values = os.environ if environment is None else environment
    targets = Targets.of(app, {})
    found = _resolved(targets, layers, values)
    for _ in range(_MOST_ROUNDS if app.modules else 0):  # what modules are made of may be configured
        before, targets = targets, Targets.of(app, found.properties)
        if targets.targets.keys() == before.targets.keys():
            break
        found = _resolved(targets, layers, values)
    return found


def _resolved(targets: Targets, layers: Sequence[Layer], environment: Mapping[str, str]) -> Resolved:
    faults: list[Fault] = []
    settings = list(read_layers(layers, faults))
    return _Resolver(targets, settings, environment).resolve(faults)


class _Resolver:
    """Applies settings to what an application has."""

    def __init__(self, targets: Targets, settings: Sequence[Setting], environment: Mapping[str, str]) -> None:
        self._targets = targets
        self._environment = environment
        self._settings = [one for one in settings if self._is_for(one)]
        self._others = [one for one in settings if not self._is_for(one)]
        self._found = Resolved(targets.application)

    def _is_for(self, setting: Setting) -> bool:
        name = setting.application
        return not name or bool([*matching(name, [self._targets.application])])

    def resolve(self, faults: Sequence[Fault]) -> Resolved:
        """Resolve the settings. `faults`: found before."""
        self._found.faults += faults
        for setting in self._others:
            self._names_nothing(
                setting,
                f"the application is `{self._targets.application}`, not `{setting.application}`",
                did_you_mean(setting.application, [self._targets.application]),
            )
        for setting in self._settings:
            if setting.section == "operator":
                self._operator(setting)
            elif setting.section == "application":
                self._choose("attribute", setting.path, setting, _NAMED)
            elif setting.section == "stream":
                self._stream(setting)
            elif setting.section == "run" and setting.layer.name == PACKAGE:
                what = "a package cannot say how it is run, since options are read before APP"
                self._found.faults.append(setting.fault(what, "say it in a file of site or user"))
        self._take()
        return self._found

    # What a setting is for ----------------------------------------------------------------------------------

    def _operator(self, setting: Setting) -> None:
        """Apply the settings of operators."""
        if is_wild(setting.path):
            self._wildcard(setting)
            return
        name, key = self._targets.named(setting.path)
        if setting.layer.only:  # the plan says what is wrong with it
            kind = setting.layer.only
            spread = name and kind == "attribute" and not key.startswith(("port.", "unifier."))
            inside = self._targets.targets[name].inside if spread else ()
            for one in inside or (name,):
                self._choose(kind, f"{one}.{key}" if one else key, setting, _NAMED, name.count("."))
        elif name:
            self._named(self._targets.targets[name], key, setting)
        else:
            owner = setting.path.partition(".")[0]
            self._names_nothing(
                setting, f"there is no operator `{owner}`", did_you_mean(owner, self._targets.targets)
            )

    def _named(self, target: Target, key: str, setting: Setting) -> None:
        """Apply a setting that names its target; what the target has not is a fault in every layer."""
        try:
            found = meaning(target, key)
        except AmbiguousError:
            self._ambiguous(target, key, setting)
            return
        if found is None:
            self._found.faults.append(_unknown(target, key, setting))
            return
        for one in found.keys:
            self._choose(found.kind, one, setting, _NAMED, target.name.count("."))

    def _wildcard(self, setting: Setting) -> None:
        """Apply a setting to all targets that its wildcard fits, and that have what it says."""
        only = setting.layer.only
        used = False
        for target, key, is_named in self._targets.fitting(setting.path):
            try:
                found = meaning(target, f"{only[:4]}.{key}" if only else key)
            except AmbiguousError:
                self._ambiguous(target, key, setting)
                continue
            for one in found.keys if found is not None else ():
                used = True
                self._choose(found.kind if found else "", one, setting, _NAMED if is_named else _WILD)
        if not used:
            self._names_nothing(
                setting,
                "no operator has such a name and such a property or attribute",
                "look at the names in `ridgeline plan`, and at `ridgeline library --attributes`",
            )

    def _stream(self, setting: Setting) -> None:
        name, _, key = setting.path.rpartition(".")
        names = [*matching(name, self._targets.streams)] if is_wild(name) else [name]
        if not set(names) & set(self._targets.streams):
            self._names_nothing(
                setting, f"there is no stream `{name}`", did_you_mean(name, self._targets.streams)
            )
            return
        for one in names:
            self._choose("attribute", f"stream.{one}.{key}", setting, _WILD if is_wild(name) else _NAMED)

    # What counts --------------------------------------------------------------------------------------------

    def _choose(self, kind: Kind, key: str, setting: Setting, how: int, depth: int = 0) -> None:
        rank = setting.level, bool(setting.application), how, depth, setting.position
        self._found.choices.setdefault((kind, key), []).append(Choice(rank, setting))

    def _take(self) -> None:
        """Take the highest priorities, without entries of what a higher layer gives as a whole."""
        choices = self._found.choices
        for several in choices.values():
            several.sort(key=lambda choice: choice.rank, reverse=True)
        for (kind, key), (first, *_) in list(choices.items()):
            if kind == "property" and self._replaced(key, first):
                continue
            try:
                value = configured_value(first.setting.value, self._environment)
            except ValueFaultError as error:
                self._found.faults.append(first.setting.fault(error.what, error.remedy))
                continue
            (self._found.properties if kind == "property" else self._found.attributes)[key] = value

    def _replaced(self, key: str, choice: Choice) -> bool:
        """True if a setting of higher priority gives the whole of which this is an entry."""
        whole = key.rpartition(".")[0]
        while whole:
            above = self._found.choices.get(("property", whole))
            if above and above[0].rank > choice.rank:
                return True
            whole = whole.rpartition(".")[0]
        return False

    # What is wrong ------------------------------------------------------------------------------------------

    def _names_nothing(self, setting: Setting, what: str, remedy: str) -> None:
        """A key that names nothing: a fault, or unused where the layer is for all applications."""
        if setting.layer.strict:
            self._found.faults.append(setting.fault(what, remedy))
        else:
            self._found.unused.append(setting)

    def _ambiguous(self, target: Target, key: str, setting: Setting) -> None:
        what = f"`{key}` of `{target.name}` is both a property and an attribute"
        self._found.faults.append(setting.fault(what, f"write `prop.{key}` or `attr.{key}`"))


def _unknown(target: Target, key: str, setting: Setting) -> Fault:
    """The fault of a key that means nothing to the operator that it names."""
    kind, _, rest = key.partition(".")
    if kind in ("port", "unifier") and rest:
        port, _, name = rest.rpartition(".")
        known = target.outputs if kind == "unifier" else target.inputs | target.outputs
        if port not in known:
            what = f"`{target.name}` has no {'output ' if kind == 'unifier' else ''}port `{port}`"
            return setting.fault(what, did_you_mean(port, known))
        scope = Scope.UNIFIER if kind == "unifier" else Scope.INPUT_PORT
        scope = Scope.OUTPUT_PORT if kind == "port" and port not in target.inputs else scope
        what = f"there is no attribute `{name}` of {scope}s"
        return setting.fault(what, did_you_mean(name, attributes_of(scope)))
    what = f"`{target.name}` has no property or attribute `{key}`"
    return setting.fault(what, did_you_mean(key, [*target.properties, *attributes_of(Scope.OPERATOR)]))


@dataclass(slots=True, eq=False)
class RunOptions:
    """Options of a run from all layers; `conf`: settings of Spark.

    `settings`: all that was said of each, what counts first.
    """

    options: dict[str, Any] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    settings: dict[str, list[Setting]] = field(default_factory=dict)


def run_options(
    layers: Sequence[Layer], known: Iterable[str], environment: Mapping[str, str], faults: list[Fault]
) -> RunOptions:
    """The options of a run in layers, the lowest first; `known`: all that there are. Adds faults."""
    found = RunOptions()
    names = set(known)
    for setting in read_layers(layers, []):
        if setting.section == "run":
            key = setting.path
            name = key.partition(".")[0]
            if (name == CONF and key != CONF) or key in names - {CONF}:
                found.settings.setdefault(key, []).insert(0, setting)
            elif name == CONF:
                faults.append(setting.fault("`run.conf` names no setting", "write `run.conf.spark....`"))
            else:
                what = f"`{key}` is no option of a run that can be configured"
                faults.append(setting.fault(what, did_you_mean(key, names)))
    for key, (first, *_) in found.settings.items():
        try:
            value = configured_value(first.value, environment)
        except ValueFaultError as error:
            faults.append(first.fault(error.what, error.remedy))
            continue
        if key.startswith(f"{CONF}."):
            found.conf[key.removeprefix(f"{CONF}.")] = _text(value)
        else:
            found.options[key] = value
    return found


def _text(value: object) -> str:
    """A setting of Spark as a text."""
    return str(value).lower() if isinstance(value, bool) else str(value)
