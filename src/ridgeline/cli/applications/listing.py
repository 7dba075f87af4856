"""The command `ps`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ridgeline.cli.remote.options import AsJson, Store, Token

_STYLES = {
    **dict.fromkeys(("dead", "failed"), "red"),
    **dict.fromkeys(("damaged", "foreign", "restarting"), "yellow"),
    "running": "green",
}
_LIVING = {"starting", "running", "restarting", "standby"}
_COLUMNS = ("name", "state", "sentence", "host", "address", "age", "epoch")


def ps(
    running: Annotated[
        bool, typer.Option("--running", help="Leave out those that have ended, failed or are dead.")
    ] = False,
    store: Store = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List applications: those of yours on this machine, and with `--store` all of a store.

    Each has its state, the sentence that it says of itself, and how old its last heartbeat is. One that is
    `dead` ran when its last heartbeat came: its process is gone, or its heartbeats have stopped. One that is
    `restarting` waits for its supervisor to start the next driver. A `standby` is one under a supervisor of
    this machine. All are asked at once, three seconds at most.

    Example: `ridgeline ps --store s3a://bucket/streams`
    """
    from ridgeline.cli.remote import shared

    rows = [row for row in _rows(store, token) if not running or row["state"] in _LIVING]
    shared.show({"apps": rows}, lambda _width: [_table(rows) if rows else _none(store)], as_json=as_json)


def _none(store: str | None) -> Text:
    where = "in the store" if store else "on this machine; `--store URL` shows those of a store"
    return Text(f"there is no application {where}")


def _rows(store: str | None, token: str | None) -> list[dict[str, Any]]:
    """The applications of the store and of this machine, by name."""
    from ridgeline.cli.applications.resolving import store_of
    from ridgeline.cli.cluster.kept import token_of
    from ridgeline.service import registry
    from ridgeline.service.store.folder import EntryFolder
    from ridgeline.service.store.standing import ask, standings
    from ridgeline.service.supervised import supervised

    here = registry.running()
    place = store_of(store)
    found = []
    if place is not None:
        folder = EntryFolder(place)
        tokens = {one.id: one.token for one in here if one.token}
        entries = folder.entries()
        kept = [(one.entry.id, token_of(folder.uri, one.entry)) for one in entries if one.entry is not None]
        tokens |= {number: found for number, found in kept if found and number}
        found = standings(folder, entries, tokens, token)
    known = {one.found.entry.id for one in found if one.found.entry is not None}
    others = [one for one in here if one.id not in known]
    under = supervised()
    rows = [_row_in_store(one) | _newer(one, under) for one in found]
    rows += [_row_here(entry, said) for entry, said in zip(others, ask(others), strict=True)]
    shown = {(one.host, one.supervisor) for one in here}
    in_store = [one.found.entry for one in found if one.lives and one.found.entry is not None]
    shown |= {(one.host, one.supervisor.pid) for one in in_store if one.supervisor is not None}
    rows += [_row_held(one) for one in under if (one.host, one.pid) not in shown]
    return sorted(rows, key=lambda row: (row["name"], row["started"] or 0))


def _row_in_store(one: Any) -> dict[str, Any]:
    """An application of a store as JSON values: no text of its entry can control a terminal."""
    from ridgeline.api.support.masking import printable

    entry = one.found.entry
    texts = ("host", "address", "run", "user", "master", "deploy_mode", "checkpoint", "cluster_id", "log")
    said = {name: printable(getattr(entry, name)) if entry is not None else "" for name in texts}
    return {
        "name": one.found.name,
        "state": one.state,
        "sentence": printable(one.words),
        "says": "" if one.said is None else one.said["state"],
        **said,
        "epoch": entry.epoch if entry is not None else None,
        "pid": entry.pid if entry is not None else None,
        "started": entry.started if entry is not None else None,
        "ageSeconds": round(one.age, 1),
        "inStore": True,
    }


def _newer(one: Any, under: list[Any]) -> dict[str, Any]:
    """State and sentence by its supervisor on this machine, if it restarts: the store may be full."""
    from ridgeline.api.support.masking import printable

    above = one.found.entry.supervisor if one.state == "restarting" else None
    if above is None:
        return {}
    for record in under:
        if (record.pid, record.process) == (above.pid, above.process) and record.state != "running":
            return {"state": record.state, "sentence": printable(record.words())}
    return {}


def _row_here(entry: Any, said: Any) -> dict[str, Any]:
    """An application of this machine that is in no store, as JSON values."""
    run, _, epoch = entry.id.rpartition("-")
    return {
        "name": entry.name,
        "state": "running",
        "sentence": said["sentence"] or said["problem"],
        "says": said["state"],
        "host": entry.host,
        "address": entry.url,
        "run": run,
        "user": entry.user,
        "checkpoint": entry.checkpoint,
        "epoch": int(epoch) if epoch.isdigit() else None,
        "pid": entry.pid,
        "started": entry.started,
        "ageSeconds": None,
        "inStore": False,
    }


def _row_held(one: Any) -> dict[str, Any]:
    """An application of a supervisor of this machine whose driver cannot be asked, as JSON values."""
    from ridgeline.api.support.masking import printable

    return {
        "name": printable(one.name),
        "state": one.state,
        "sentence": printable(one.words()),
        "says": "",
        "host": one.host,
        "address": "",
        "run": "",
        "user": one.user,
        "checkpoint": printable(one.checkpoint),
        "epoch": None,
        "pid": one.driver,
        "started": one.started,
        "ageSeconds": None,
        "inStore": False,
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, overflow="fold", justify="right" if name in {"age", "epoch"} else "left")
    for row in rows:
        age = "" if row["ageSeconds"] is None else _age(row["ageSeconds"])
        epoch = "" if not row["epoch"] else str(row["epoch"])
        state = Text(row["state"], _STYLES.get(row["state"], ""))
        texts = [row["sentence"], row["host"], row["address"], age, epoch]
        table.add_row(Text(row["name"]), state, *map(Text, texts))
    return table


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
