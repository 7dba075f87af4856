"""`ridgeline plan --config`: every value of an application, and where it was set."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from ridgeline.cli.configuration import Written, configuration, load_configured
from ridgeline.cli.options import nothing_given
from ridgeline.cli.output import write
from ridgeline.plan.spec.form import form_of

_Rows = Sequence[Mapping[str, Any]]
"""Values as the web service answers them."""


def dump_config(
    context: typer.Context,
    written: Written,
    *,
    operator: str | None,
    only_set: bool,
    as_json: bool,
) -> None:
    """Print the values of a valid application, or of one that runs: those of one operator or all.

    Raises ValidationError, CommandError.
    """
    from ridgeline.cli.specifications import is_running
    from ridgeline.settings.listing import CODE, DEFAULT
    from ridgeline.settings.targets import matching

    runs = is_running(written.target)
    if runs:
        nothing_given(written.target, [*written.given, *context.args])
    name, found, unused = _of_running(written.target) if runs else _of_written(context, written)
    if only_set:
        own = {DEFAULT, CODE, "specification", "application"}
        found = [row for row in found if row["layer"] not in own]
    if operator is not None:
        found = [row for row in found if row["operator"] and [*matching(operator, [row["operator"]])]]
    answer = {"application": name, "values": found, "unused": unused}
    write(json.dumps(answer, indent=2) if as_json else _text(found, unused))


def _of_written(context: typer.Context, written: Written) -> tuple[str, _Rows, Mapping[str, Sequence[str]]]:
    """The name of an application, its values, and the keys of each layer that name nothing in it."""
    from ridgeline.plan.validation import validate
    from ridgeline.settings.listing import CODE, rows, run_rows, unused_by_layer

    configured = load_configured(context, written)
    resolved = configured.resolve()
    with resolved.reporting():
        logical = validate(configured.app, resolved.properties, resolved.attributes)
    source = CODE if form_of(written.target) is None else "specification"
    found = [*run_rows(configuration(context).run), *rows(configured.app, resolved, logical, source)]
    return logical.application, [row.to_json() for row in found], unused_by_layer(resolved.unused)


def _of_running(target: str) -> tuple[str, _Rows, Mapping[str, Sequence[str]]]:
    """The same of an application that runs, with what changes have made of it."""
    from ridgeline.cli.remote import shared

    client = shared.connect(target, os.environ.get("RIDGELINE_TOKEN"))
    return client.get("/info")["name"], client.get("/configuration")["values"], {}


def _text(found: _Rows, unused: Mapping[str, Sequence[str]]) -> str:
    """A line for each value, and one for each layer of which something names nothing here."""
    left = [f"{row['key']} = {_shown(row['value'])}" for row in found]
    width = min(max(map(len, left), default=0), 60)
    lines = [
        f"{text:{width}}  {row['place']}{_instead(row['insteadOf'])}".rstrip()
        for text, row in zip(left, found, strict=True)
    ]
    for origin, keys in unused.items():
        several = f"{len(keys)} values of {origin} are" if len(keys) > 1 else f"1 value of {origin} is"
        lines.append(f"{several} for nothing in this application; `--json` lists them")
    return "\n".join(lines) or "nothing is set"


def _instead(others: _Rows) -> str:
    parts = [f"{_shown(one['value'])} of {one['place']}" for one in others]
    return f", instead of {', '.join(parts)}" if parts else ""


def _shown(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
