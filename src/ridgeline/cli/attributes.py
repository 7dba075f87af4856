"""The command `list-attributes`: all attributes, from the registry."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ridgeline.cli.output import write


def list_attributes(
    scope: Annotated[
        str | None,
        typer.Option(
            metavar="SCOPE",
            help="`application`, `operator`, `input-port`, `output-port`, `unifier`, `stream`; default: all.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """List all attributes: what each can be given to, what it takes, its default, and what it does.

    Example: `ridgeline list-attributes --scope input-port`
    """
    from ridgeline.api.attributes import ATTRIBUTES, attributes_of
    from ridgeline.api.errors import RidgelineError, did_you_mean
    from ridgeline.api.support.attribute import Scope

    names = {one.replace(" ", "-"): one for one in Scope}
    scope = None if scope is None else scope.lower().replace("_", "-").replace(" ", "-")
    if scope is not None and scope not in names:
        msg = f"there is no scope `{scope}`; {did_you_mean(scope, names)}"
        raise RidgelineError(msg)
    shown = sorted((attributes_of(names[scope]) if scope is not None else ATTRIBUTES).items())
    if as_json:
        answer = [
            {
                "name": name,
                "scopes": [one for one in Scope if one in attribute.scopes],
                "takes": attribute.takes,
                "default": attribute.default_text or None,
                "help": attribute.help,
            }
            for name, attribute in shown
        ]
        write(json.dumps(answer, indent=2))
        return
    for name, attribute in shown:
        scopes = ", ".join(one for one in Scope if one in attribute.scopes)
        default = f"; default: {attribute.default_text}" if attribute.default_text else ""
        write(f"{name} ({scopes}): {attribute.takes}{default}\n    {attribute.help}")
