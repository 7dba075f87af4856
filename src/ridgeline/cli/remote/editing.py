"""The commands of single edits, such as `ridgeline repartition`."""

from __future__ import annotations

from typing import Annotated

from ridgeline.api.errors import ChangeError
from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import argument
from ridgeline.cli.remote.changing import DryRun
from ridgeline.cli.remote.options import Change
from ridgeline.plan.change.verbs import partitioner_of
from ridgeline.plan.edits import Edit, Repartition, SetAttribute, SetProperty, edit_to_json


def repartition(
    remote: Change,
    operator: str,
    partitions: Annotated[int | None, argument(min=1)] = None,
    *,
    partitioner: str | None = None,
    dry_run: DryRun = False,
) -> None:
    """Give an operator another number of partitions.

    Its keyed state moves with its keys. Operators that the change does not touch go on without a pause.

    Example: `ridgeline repartition payments balances 4`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.

    Args:
        remote: The application.
        operator: Name of an operator, as in the plan.
        partitions ([N]): How many partitions it is to have.
        partitioner (CLASS): What divides it from now on: an import path, or JSON with `class`, `arguments`
            and `properties`. Default: what divides it now.
        dry_run: Only show it.
    """
    try:
        divides = None if partitioner is None else partitioner_of(partitioner)
    except ChangeError as error:
        raise CommandError(str(error)) from None
    _make(remote, Repartition(operator, partitions, divides), dry_run=dry_run)


def set_operator_property(
    remote: Change, operator: str, name: str, value: str, *, dry_run: DryRun = False
) -> None:
    """Give a property of an operator a value.

    In all partitions, from one window on. The instances stay: what they have cached and connected stays too.

    Example: `ridgeline set-operator-property payments payments per_window 500`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.

    Args:
        remote: The application.
        operator: Name of an operator, as in the plan.
        name (PROPERTY): Its property; `options.topic` for an entry of one.
        value: Its value, as `-D` takes it.
        dry_run: Only show it.
    """
    _make(remote, SetProperty(operator, name, value), dry_run=dry_run)


def set_operator_attribute(
    remote: Change,
    operator: str,
    name: str,
    value: str,
    *,
    port: str = "",
    unifier: bool = False,
    dry_run: DryRun = False,
) -> None:
    """Give an attribute of an operator or a port a value.

    The operator's instances are made anew, over their state.

    Example: `ridgeline set-operator-attribute payments balances memory_mb 512`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.

    Args:
        remote: The application.
        operator: Name of an operator, as in the plan.
        name (ATTRIBUTE): The attribute; `ridgeline library --attributes` has all.
        value: Its value, as `--attribute` takes it.
        port (PORT): It is one of this port of the operator.
        unifier: It is one of the unifiers of `--port`.
        dry_run: Only show it.
    """
    _make(remote, SetAttribute(operator, name, value, port, unifier), dry_run=dry_run)


def _make(remote: Change, edit: Edit, *, dry_run: bool) -> None:
    """Ask a running application for an edit."""
    remote.sender().change([edit_to_json(edit)], remote.note, dry_run=dry_run)
