"""The command `dump-config`: every value of an application, and where it was set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from ridgeline.cli.configuration import Written, configuration, load_configured
from ridgeline.cli.output import write
from ridgeline.plan.spec.form import form_of

if TYPE_CHECKING:
    from ridgeline.settings.listing import Row, SourcedValue
    from ridgeline.settings.resolving import Resolved


def dump_config(
    context: typer.Context,
    written: Written,
    *,
    operator: str | None,
    only_set: bool,
    as_json: bool,
) -> None:
    """Print the values of a valid application, those of one operator or all.

    Raises ValidationError, CommandError.
    """
    from ridgeline.plan.validation import validate
    from ridgeline.settings.listing import CODE, DEFAULT, rows, run_rows
    from ridgeline.settings.targets import matching

    configured = load_configured(context, written)
    resolved = configured.resolve()
    with resolved.reporting():
        logical = validate(configured.app, resolved.properties, resolved.attributes)
    source = CODE if form_of(written.target) is None else "specification"
    found = [*run_rows(configuration(context).run), *rows(configured.app, resolved, logical, source)]
    if only_set:
        found = [row for row in found if row.effective.layer not in {DEFAULT, CODE, source, "application"}]
    if operator is not None:
        found = [row for row in found if row.operator and [*matching(operator, [row.operator])]]
    write(_json(logical.application, found, resolved) if as_json else _text(found, resolved))


def _text(found: Sequence[Row], resolved: Resolved) -> str:
    """A line for each value, and one for each layer of which something names nothing here."""
    from ridgeline.settings.listing import unused_by_layer

    left = [f"{row.key} = {_value(row.effective.value)}" for row in found]
    width = min(max(map(len, left), default=0), 60)
    lines = [
        f"{text:{width}}  {row.effective.place}{_instead(row.overridden)}"
        for text, row in zip(left, found, strict=True)
    ]
    for origin, keys in unused_by_layer(resolved.unused).items():
        several = f"{len(keys)} values of {origin} are" if len(keys) > 1 else f"1 value of {origin} is"
        lines.append(f"{several} for nothing in this application; `--json` lists them")
    return "\n".join(lines) or "nothing is set"


def _instead(others: Sequence[SourcedValue]) -> str:
    parts = [f"{_value(one.value)} of {one.place}" for one in others]
    return f", instead of {', '.join(parts)}" if parts else ""


def _value(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _json(application: str, found: Sequence[Row], resolved: Resolved) -> str:
    """The same as an object, with the keys that name nothing here."""
    from ridgeline.settings.listing import unused_by_layer

    values = [
        {
            "key": row.key,
            **_to_json(row.effective),
            "insteadOf": [_to_json(one) for one in row.overridden],
        }
        for row in found
    ]
    answer = {"application": application, "values": values, "unused": unused_by_layer(resolved.unused)}
    return json.dumps(answer, indent=2)


def _to_json(value: SourcedValue) -> dict[str, Any]:
    return {"value": value.value, "layer": value.layer, "from": value.place}
