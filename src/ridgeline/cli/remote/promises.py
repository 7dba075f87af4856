"""`ridgeline promises`, with its alert rules, and the table of decisions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from rich.text import Text

from ridgeline.api.policy import side
from ridgeline.api.support.masking import printable
from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import option
from ridgeline.cli.remote.options import Nearest
from ridgeline.cli.tables import folded
from ridgeline.measure.wording.units import duration, time_of_day
from ridgeline.service.columns import noted, words

if TYPE_CHECKING:
    from ridgeline.measure.deciding.figures import PromiseState
    from ridgeline.sla import Promise


def promises(
    remote: Nearest, *, alert_rules: bool = False, wait: Annotated[str, option(called="--for")] = "1m"
) -> None:
    """Show promises: kept or broken; write alert rules.

    Since when, and how long it was broken. There is an alert rule for each promise, which fires while it is
    broken. And for every application: its driver is gone, the run has failed, it is stuck, commits nothing,
    or has fewer slots than it wants.

    Examples: `ridgeline promises payments`, `ridgeline promises payments.py --alert-rules > rules.yaml`

    Args:
        remote: The application.
        alert_rules: Write alert rules for Prometheus instead, as YAML. APP may be a file with an application.
        wait (TIME): How long something has to be so before such an alert fires.
    """
    if alert_rules:
        _write_alert_rules(remote, wait)
        return
    remote.ask("/promises", promise_parts, rows="promises", none="the application promises nothing")


def _write_alert_rules(remote: Nearest, wait: str) -> None:
    """Write alert rules of a running application, or of one in a file. Raises RidgelineError."""
    import yaml

    from ridgeline.cli.output import write
    from ridgeline.sla import alert_rules as rules_of

    target = remote.app or ""
    of_file = "://" not in target and Path(target.partition(":")[0]).is_file()
    if re.fullmatch(r"(\d+(ms|[smhdwy]))+", wait) is None:
        raise CommandError(f"`--for {wait}` is no duration of Prometheus; give `30s`, `1m` or `1h30m`")
    name, width, found = _of_file(target) if of_file else _of_running(remote)
    made = rules_of(name, found, window_seconds=width, wait=wait)
    write(yaml.safe_dump(made, sort_keys=False, allow_unicode=True).rstrip())


def _of_file(target: str) -> tuple[str, float, Sequence[Promise]]:
    """Name, width of windows and promises of an application in a file. Raises RidgelineError."""
    from ridgeline.cli.load import load_application
    from ridgeline.plan.validation import validate

    logical = validate(load_application(target))
    return logical.application, logical.window_seconds, logical.promises


def _of_running(remote: Nearest) -> tuple[str, float, Sequence[PromiseState]]:
    """Name, width of windows and promises of a running application."""
    from ridgeline.measure.deciding.figures import PromiseState

    client = remote.connect()
    names = {"name": "promise", "kind": "kind", "operator": "operator", "kept": "kept", "since": "since"}
    names |= {"figure": "figure", "limit": "limit", "unit": "unit"}
    rows = client.get("/promises")["promises"]
    found = [PromiseState(**{ours: row[theirs] for ours, theirs in names.items()}) for row in rows]
    info = client.get("/info")
    return info["name"], info["windowSeconds"], found


_KEPT = {True: Text("kept", "green"), False: Text("BROKEN", "bold red"), None: Text("unknown", "dim")}
_PROMISES = (
    words("promise", "promise"),
    words("", lambda row: _KEPT[row["kept"]]),
    words("since", "since", time_of_day),
    words("figure", lambda row: "" if row["figure"] is None else f"{row['figure']:.3g} {row['unit']}"),
    words("promised", lambda row: f"{side(row['kind'])} {row['limit']:g} {row['unit']}"),
    noted("budget", "budgetLeft", "{:.0%}".format),
    words("broken", "brokenSeconds", duration),
    words("times", "timesBroken"),
)
_DECISIONS = (
    words("id", "id"),
    words("state", "state"),
    words("at", "at", time_of_day),
    words("by", "by"),
    words("what", "what"),
)


def promise_parts(rows: Sequence[Any], _width: int) -> list[Table | Text]:
    """A line for each promise; then why, where a reason is known."""
    why = [Text(printable(f"{row['promise']}: {row['reason']}")) for row in rows if row["reason"]]
    return [folded(_PROMISES, rows), *why]


def decision_parts(rows: Sequence[Any], _width: int) -> list[Table | Text]:
    """A table with a line for each decision; then why, and what came of it."""
    notes: list[Text] = []
    for row in rows:
        undone = f"takes decision {row['undoes']} back; " if row["undoes"] is not None else ""
        lines = [f"{row['id']}: {undone}{row['note']}", row["found"] or row["expected"]]
        notes.append(Text(printable("; ".join(line for line in lines if line))))
    return [folded(_DECISIONS, rows), *notes]
