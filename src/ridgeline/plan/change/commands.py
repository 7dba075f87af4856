"""Commands of single edits, such as `ridgeline repartition`: functions of annotated parameters."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from ridgeline.api.errors import ChangeError
from ridgeline.plan.edits import Edit, Repartition, SetAttribute, SetProperty


@dataclass(frozen=True, slots=True)
class Word:
    """How the command line shows a parameter of a command: by its place, or (`option`) as `--name`.

    `dashed`: it may begin with a dash, as `-5` does.
    """

    help: str
    metavar: str | None = None
    minimum: int | None = None
    option: bool = False
    dashed: bool = False


_Operator = Annotated[str, Word("Name of an operator, as in the plan.", "OPERATOR")]


def set_operator_property(
    operator: _Operator,
    name: Annotated[str, Word("Its property; `options.topic` for an entry of one.", "PROPERTY")],
    value: Annotated[str, Word("Its value, as `-D` takes it.", "VALUE", dashed=True)],
) -> SetProperty:
    """Give a property of an operator a value.

    In all partitions, from one window on. The instances stay: what they have cached and connected stays too.

    Example: `ridgeline set-operator-property payments payments per_window 500`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.
    """
    return SetProperty(operator, name, value)


def set_operator_attribute(
    operator: _Operator,
    name: Annotated[str, Word("The attribute; `ridgeline library --attributes` has all.", "ATTRIBUTE")],
    value: Annotated[str, Word("Its value, as `--attribute` takes it.", "VALUE", dashed=True)],
    port: Annotated[str, Word("It is one of this port of the operator.", "PORT", option=True)] = "",
    *,
    unifier: Annotated[bool, Word("It is one of the unifiers of `--port`.", option=True)] = False,
) -> SetAttribute:
    """Give an attribute of an operator or a port a value.

    The operator's instances are made anew, over their state.

    Example: `ridgeline set-operator-attribute payments balances memory_mb 512`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.
    """
    return SetAttribute(operator, name, value, port, unifier)


def repartition(
    operator: _Operator,
    partitions: Annotated[int | None, Word("How many partitions it is to have.", "[N]", minimum=1)] = None,
    partitioner: Annotated[
        str | None,
        Word(
            "What divides it from now on: an import path, or JSON with `class`, `arguments` and "
            "`properties`. Default: what divides it now.",
            "CLASS",
            option=True,
        ),
    ] = None,
) -> Repartition:
    """Give an operator another number of partitions.

    Its keyed state moves with its keys. Operators that the change does not touch go on without a pause.

    Example: `ridgeline repartition payments balances 4`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.
    """
    return Repartition(operator, partitions, None if partitioner is None else partitioner_of(partitioner))


def partitioner_of(text: str) -> dict[str, Any]:
    """The partitioner that a text names: an import path, or JSON. Raises ChangeError.

    >>> partitioner_of("payments.ByRegion")
    {'class': 'payments.ByRegion'}
    """
    if not text.lstrip().startswith("{"):
        return {"class": text}
    try:
        found: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ChangeError(f"`--partitioner` is no JSON: {error}; write it as JSON") from None
    return found


COMMANDS: tuple[Callable[..., Edit], ...] = (repartition, set_operator_property, set_operator_attribute)
"""Each raises ChangeError for words that make no edit; its docstring is the help."""
