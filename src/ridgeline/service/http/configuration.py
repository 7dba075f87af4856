"""The endpoint about configuration: the values that count now, and where each was set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import MASK, mask
from ridgeline.plan.shown_properties import plain, shown_properties
from ridgeline.service.http.answers import ConfigurationAnswer, ConfiguredAnswer, ConfiguredValueAnswer
from ridgeline.service.http.endpoint import AnswerError, Call, Rows

if TYPE_CHECKING:
    from ridgeline.plan.logical import LogicalOperator
    from ridgeline.settings.listing import Row

_CHANGED = "change"
_WHERE = "a change while it runs, or of the checkpoint"
_DEFAULT = "default"
_QUEUE = "a decoupled stream makes this operator"


CONFIGURATION = Rows()


@CONFIGURATION.question("/configuration")
def _configuration(call: Call) -> ConfigurationAnswer:
    """The values of the application that count now, the layer of each, and what it overrides.

    Raises AnswerError. Values are as of the start, with what changes have made of them.
    """
    if call.origin is None:
        return {"known": False, "values": list(_of_plan(call))}
    operators = {one.name: one for one in call.plan.logical.operators}
    try:
        rows = call.origin.rows()
    except RidgelineError as error:
        raise AnswerError(500, f"the configuration cannot be read again: {error}", "see the log") from None
    found = [_row(row, call, operators) for row in rows if not row.operator or _is_there(row, operators)]
    known = {row.operator for row in rows}
    return {"known": True, "values": [*found, *_of_plan(call, known)]}


def _is_there(row: Row, operators: Mapping[str, LogicalOperator]) -> bool:
    """False for the values of an operator that a change has removed; modules are always there."""
    inside = f"{row.operator}."
    return row.operator in operators or any(name.startswith(inside) for name in operators)


def _row(row: Row, call: Call, operators: Mapping[str, LogicalOperator]) -> ConfiguredAnswer:
    """One value; what a change has made of it comes first."""
    found: Any = row.to_json()
    now = _now(row, call, operators)
    if now is not _UNKNOWN and now != row.effective.value:
        found["insteadOf"].insert(0, {name: found[name] for name in ("value", "layer", "place")})
        found |= {"value": now, "layer": _CHANGED, "place": _WHERE}
    return cast("ConfiguredAnswer", found)


_UNKNOWN = object()


def _now(row: Row, call: Call, operators: Mapping[str, LogicalOperator]) -> object:
    """The value that the present plan has; `_UNKNOWN` where it is masked or of another kind."""
    if row.effective.value == MASK or row.key.startswith("run."):
        return _UNKNOWN
    if not row.operator:
        name = row.key.removeprefix("application.")
        attributes = call.plan.logical.attributes
        return _attribute(name, attributes[name]) if name in attributes else _UNKNOWN
    operator = operators.get(row.operator)
    if operator is None:
        return _UNKNOWN
    name = row.key.removeprefix(f"operator.{row.operator}.")
    properties = shown_properties(operator.operator)
    if name.removeprefix("prop.") in properties and (
        name.startswith("prop.") or name not in operator.attributes
    ):
        return properties[name.removeprefix("prop.")]
    return _attribute(name, operator.attributes[name]) if name in operator.attributes else _UNKNOWN


def _attribute(name: str, value: object) -> object:
    """An attribute as it is shown."""
    return plain(mask(name, getattr(value, "name", value)))


def _of_plan(call: Call, without: set[str] | None = None) -> Iterator[ConfiguredAnswer]:
    """The values of the present plan, of operators that are not in `without`.

    None: nothing is known of who set them. Else a change did, but for the ends of queues between regions.
    """
    queues = call.watch.progress().get("queues", ())
    ends = {name for one in queues for name in (one["writer"], one["reader"])}

    def row(key: str, value: Any, operator: str = "") -> ConfiguredAnswer:
        layer, place = (_DEFAULT, _QUEUE) if operator in ends else (_CHANGED, _WHERE)
        said: ConfiguredValueAnswer = {"value": value, "layer": layer, "place": place}
        if without is None:
            said |= {"layer": "", "place": ""}
        return {"key": key, "operator": operator, **said, "insteadOf": []}

    if without is None:
        for name, value in call.logical_plan["attributes"].items():
            yield row(f"application.{name}", mask(name, value))
    for one in call.logical_plan["operators"]:
        operator = one["name"]
        if without is None or operator not in without:
            attributes = {name: mask(name, value) for name, value in one["attributes"].items()}
            for name, value in (*one["properties"].items(), *attributes.items()):
                yield row(f"operator.{operator}.{name}", value, operator)
