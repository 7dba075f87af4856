"""Properties as they may be shown: plain values, and which of them hold secrets.

A secret is found by its name, by what is in the value, or by its declared type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from pydantic.fields import FieldInfo

from ridgeline.api.errors import shorten
from ridgeline.api.operator import REQUIRED, operator_type
from ridgeline.api.support.masking import MASK, mask
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.overrides import key_splitter

_LONG = 200


def shown_properties(component: object) -> dict[str, object]:
    """All properties of an operator or a module as plain values, secrets masked."""
    values = vars(component)
    names = operator_type(type(component)).properties
    return {
        name: plain(mask(name, values[name]))
        for name in sorted(names)
        if name in values and name != "context"
    }


def chosen_properties(component: object) -> dict[str, object]:
    """Those of `shown_properties` that are not the default of their class."""
    declared = operator_type(type(component)).properties
    shown = shown_properties(component)
    return {
        name: value for name, value in shown.items() if not is_default(vars(component)[name], declared[name])
    }


def is_default(value: object, default: Any) -> bool:
    """True for a value that is the default of its property, in its text too."""
    if isinstance(default, FieldInfo):
        default = REQUIRED if default.is_required() else default.get_default(call_default_factory=True)
    try:
        return type(value) is type(default) and bool(value == default) and repr(value) == repr(default)
    except (TypeError, ValueError):  # arrays
        return value is default


def plain(value: object) -> object:
    """Return a value that JSON supports as it is; others, and long ones, as a shortened text."""
    if isinstance(value, str):
        return str(value) if len(value) <= _LONG else shorten(str(value), _LONG)
    if isinstance(value, PurePath):
        return str(value)
    return value if _is_plain(value) and len(repr(value)) <= _LONG else shorten(value, _LONG)


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(part) for key, part in value.items())
    if type(value) is list:
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value))


def holds_secret(logical: LogicalPlan, key: str, value: object) -> bool:
    """True if `value`, given to `operator.property` or an entry of it, is shown masked somewhere.

    Where an object does not show its parts, all of it counts.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import RandomEventGenerator
        >>> from ridgeline.plan import plan_application
        >>> from ridgeline.testing import CollectorSink
        >>> app = Application("dice")
        >>> dice = app.add_operator("dice", RandomEventGenerator(maximum=6))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("rolls", dice.integer_data, sink.input)
        >>> logical = plan_application(app).logical
        >>> holds_secret(logical, "dice.maximum", "9"), holds_secret(logical, "dice.token", "9")
        (False, True)
    """
    values = {operator.name: vars(operator.operator) for operator in logical.operators}
    values |= {module.name: vars(module.module) for module in logical.modules}
    owner, path = key_splitter(values)(key)
    name, _, entry = path.partition(".")
    before = values.get(owner, {}).get(name)
    shown = mask(name, {entry: value} if entry else value), _part(mask(name, before), entry)
    return any(MASK in str(one) for one in shown)


def _part(shown: object, path: str) -> object:
    """The shown form of an entry; of the whole value where its parts are not shown."""
    while path and isinstance(shown, Mapping):
        if path in shown:
            return shown[path]
        first, _, path = path.partition(".")
        shown = shown.get(first)
    return shown
