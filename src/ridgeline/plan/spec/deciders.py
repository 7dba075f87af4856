"""Policies, listeners and promises as data: a class and its properties, or a promise's own words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from ridgeline.api import policy
from ridgeline.api.errors import described, did_you_mean, shorten
from ridgeline.api.policy import Kind, Promise
from ridgeline.plan.spec.values import ValueFaultError, class_path, import_path, made_of, write_value

_PROMISES: dict[Kind, Callable[..., Promise]] = {kind: getattr(policy, kind) for kind in policy.UNITS}
_LIMITS = {"limit", "at_most", "at_least"}
"""Parameters that are the limit of a promise, where it is not that of a quantile."""


def make_decider(path: str, properties: Mapping[str, Any], method: str) -> Any:
    """An instance of the class that a path names, which has this method. Raises ValueFaultError.

    >>> make_decider("ridgeline.policies.SkewPolicy", {"ratio": 2}, "decide").ratio
    2.0
    """
    kind = import_path(path)
    if not (isinstance(kind, type) and callable(getattr(kind, method, None))):
        base = "Policy" if method == "decide" else "StatsListener"
        raise ValueFaultError(f"`{path}` has no method `{method}`", f"name a subclass of `{base}`")
    return made_of(kind, properties)


def write_decider(decider: Any) -> dict[str, Any]:
    """The class and the properties of a policy or listener. Raises ValueFaultError."""
    kind = type(decider)
    found: dict[str, Any] = {"class": class_path(kind)}
    if not isinstance(decider, BaseModel):
        what = f"`{kind.__name__}` does not say what its properties are"
        raise ValueFaultError(what, "make it a subclass of `Policy` or `StatsListener`")
    given = decider.model_dump(exclude_defaults=True)
    properties = {name: write_value(name, value, Any) for name, value in given.items()}
    return found | ({"properties": properties} if properties else {})


def make_promise(given: Mapping[str, Any]) -> Promise:
    """A promise of its kind and what its function takes. Raises ValueFaultError.

    >>> make_promise({"kind": "latency", "operator": "store", "p99": "2s"}).limit
    2.0
    """
    words = dict(given)
    kind = words.pop("kind", None)
    make = _PROMISES.get(kind) if isinstance(kind, str) else None  # type: ignore[call-overload]
    if make is None:
        raise ValueFaultError(f"no promise is called {shorten(kind)}", f"give one of {', '.join(_PROMISES)}")
    known = _parameters(make)
    for name in words:
        if name not in known:
            raise ValueFaultError(f"a promise `{kind}` has no `{name}`", did_you_mean(name, known))
    try:
        return make(**words)
    except Exception as error:
        what = f"the promise `{kind}` cannot be made of this: {described(error)}"
        raise ValueFaultError(what, f"it takes {', '.join(known)}") from error


def _parameters(make: Callable[..., Promise]) -> list[str]:
    return list(inspect.signature(make).parameters)


def write_promise(promise: Promise) -> dict[str, Any]:
    """Plain values from which `make_promise` makes an equal promise.

    >>> write_promise(policy.throughput("store", at_least=100))
    {'kind': 'throughput', 'operator': 'store', 'at_least': 100.0, 'over': 60.0}
    """
    found: dict[str, Any] = {"kind": promise.kind}
    if promise.operator:
        found["operator"] = promise.operator
    takes = _parameters(_PROMISES[promise.kind])
    limit = next((name for name in takes if name in _LIMITS), f"p{promise.percent}")
    found[limit] = promise.limit
    if "over" in takes:
        found["over"] = promise.over
    return found
