"""The endpoint about configuration: the values that count now, and where each was set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import MASK, mask
from ridgeline.plan.shown_properties import plain, shown_properties
from ridgeline.service.http.answers import ConfigurationAnswer, ConfiguredAnswer, ConfiguredValueAnswer
from ridgeline.service.http.endpoint import AnswerError, Call, Rows

if TYPE_CHECKING:
    from ridgeline.plan.logical import LogicalPlan
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
    try:
        rows = call.origin.rows()
    except RidgelineError as error:
        raise AnswerError(500, f"the configuration cannot be read again: {error}", "see the log") from None
    logical = call.plan.logical
    names, present = [one.name for one in logical.operators], _present(logical)
    there = [row for row in rows if not row.operator or any(_is_of(name, row.operator) for name in names)]
    found = [_row(row, present.get(row.key, row.effective.value)) for row in there]
    return {"known": True, "values": [*found, *_of_plan(call, {row.operator for row in rows})]}


def _is_of(name: str, operator: str) -> bool:
    """Whether an operator is the one of a row, or in its module: others a change has removed."""
    return name == operator or name.startswith(f"{operator}.")


def _row(row: Row, now: object) -> ConfiguredAnswer:
    """One value; what a change has made of it comes first. What is masked, is not compared."""
    found: Any = row.to_json()
    if now != row.effective.value != MASK:
        found["insteadOf"].insert(0, {name: found[name] for name in ("value", "layer", "place")})
        found |= {"value": now, "layer": _CHANGED, "place": _WHERE}
    return cast("ConfiguredAnswer", found)


def _present(logical: LogicalPlan) -> dict[str, object]:
    """The values of the present plan, as they are shown, by their keys in a configuration."""
    found = {f"application.{name}": _attribute(name, one) for name, one in logical.attributes.items()}
    for operator in logical.operators:
        key = f"operator.{operator.name}"
        properties = shown_properties(operator.operator)
        found |= {
            f"{key}.{prefix}{name}": one for name, one in properties.items() for prefix in ("", "prop.")
        }
        found |= {f"{key}.{name}": _attribute(name, one) for name, one in operator.attributes.items()}
    return found


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
