"""The commands about applications by name: `ps` and `stop`."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import printable
from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import option
from ridgeline.cli.output import write
from ridgeline.cli.remote.options import AsJson, Change, Store, Token
from ridgeline.cli.tables import folded
from ridgeline.measure.wording.units import duration
from ridgeline.service.columns import Column, words

if TYPE_CHECKING:
    from ridgeline.cli.applications.resolving import Target
    from ridgeline.cli.remote.client import Client
    from ridgeline.service.registry import Entry
    from ridgeline.service.store.asking import Said

_STYLES = {
    **dict.fromkeys(("dead", "failed"), "red"),
    **dict.fromkeys(("damaged", "foreign"), "yellow"),
    "running": "green",
}
_LIVING = {"starting", "running"}


def ps(*, running: bool = False, store: Store = None, token: Token = None, as_json: AsJson = False) -> None:
    """List applications: of this machine, or of a store.

    Those of yours on this machine, and with `--store` all of a store. Each has its state, the sentence that
    it says of itself, and how old its last heartbeat is. One that is `dead` ran when its last heartbeat came:
    its process is gone, or its heartbeats have stopped. All are asked at once, three seconds at most.

    Example: `ridgeline ps --store s3a://bucket/streams`

    Args:
        running: Leave out those that have ended, failed or are dead.
        store: Of applications by name.
        token: Of applications that are asked.
        as_json: Print JSON.
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
    from ridgeline.service import registry
    from ridgeline.service.store.asking import ask

    here = registry.running()
    place = store_of(store)
    found = []
    if place is not None:
        from ridgeline.service.store.folder import EntryFolder
        from ridgeline.service.store.standing import standings

        folder = EntryFolder(place)
        tokens = {one.id: one.token for one in here if one.token}
        found = standings(folder, folder.entries(), tokens, token)
    known = {one.found.entry.id for one in found if one.found.entry is not None}
    others = [one for one in here if one.id not in known]
    rows = [_row(one.found.name, one.found.entry, one.state, one.words, one.said, one.age) for one in found]
    rows += [
        _row(entry.name, entry, entry.state, said.words, said, None)
        for entry, said in zip(others, ask(others), strict=True)
    ]
    return sorted(rows, key=lambda row: (row["name"], row["started"] or 0))


def _row(
    name: str, entry: Entry | None, state: str, sentence: str, said: Said | None, age: float | None
) -> dict[str, Any]:
    """An application as JSON values: no text of its entry can control a terminal. `age`: in a store."""
    texts = ("host", "run", "user", "master", "deploy_mode", "checkpoint", "cluster_id")
    return {
        "name": name,
        "state": state,
        "sentence": printable(sentence),
        "says": "" if said is None else said.state,
        "address": "" if entry is None else printable(entry.url),
        **{one: "" if entry is None else printable(getattr(entry, one)) for one in texts},
        **{
            number: None if entry is None else getattr(entry, number)
            for number in ("epoch", "pid", "started")
        },
        "ageSeconds": None if age is None else round(age, 1),
        "inStore": age is not None,
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    """A table with a line for each application."""
    columns = (
        words("name", "name"),
        words("state", "state", style=lambda state: _STYLES.get(state, "")),
        *(words(name, name) for name in ("sentence", "host", "address")),
        Column("age", "ageSeconds", duration, unknown=""),
        Column("epoch", lambda row: row["epoch"] or "", unknown=""),
    )
    return folded(columns, rows)


def stop(
    remote: Change, *, now: bool = False, yes: Annotated[bool, option(called="--yes -y")] = False
) -> None:
    """End an application after the windows under way.

    All results are published. If its web service does not answer and it runs on this machine, its process
    gets SIGTERM, or SIGKILL with `--now`. After that the next start with its checkpoint runs the windows
    again, and fences off what might be left of this one.

    Examples: `ridgeline stop payments --store /shared/streams`, `ridgeline stop payments --now --yes`

    Exit codes: 0 ended, 1 still running after `--timeout`, 2 none of this name runs, or not allowed.

    Args:
        remote: The application.
        now: At once, after a question; the windows under way are void.
        yes: Do not ask.
    """
    target = _target(remote)
    entry = target.entry
    question = f"end `{remote.app}` (process {entry.pid} on `{entry.host}`) at once?"
    if now and not yes and not _confirmed(question):
        write(f"nothing was done: `{remote.app}` runs on")
        raise typer.Exit(2)
    client = _answering(target, remote)
    if client is None:
        _end_here(target, remote, signal.SIGKILL if now else signal.SIGTERM)
        return
    remote.sender_to(client).end("/kill" if now else "/shutdown", remote.note)
    if not now:
        _wait_for_end(target, remote)


# How it is ended --------------------------------------------------------------------------------------------


def _target(remote: Change) -> Target:
    """The application. Raises CommandError if it does not run."""
    from ridgeline.cli.applications.resolving import Target, locate, not_running

    if "://" in remote.app:
        from ridgeline.service import registry

        return Target(registry.find(remote.app))
    target = locate(remote.app, remote.store)
    if target.how is not None and not target.how.lives:
        raise CommandError(not_running(target.how))
    return target


def _answering(target: Target, remote: Change) -> Client | None:
    """A client of its web service, if that answers. Raises CommandError if it does not let this user in."""
    try:
        client = target.client(remote.token)
    except CommandError:
        return None
    try:
        client.get("/info")
    except CommandError:
        raise
    except RidgelineError:
        return None
    return client


def _end_here(target: Target, remote: Change, number: signal.Signals) -> None:
    """End the process of an application on this machine.

    Raises CommandError if it is elsewhere or another user's, RidgelineError if it does not end in time.
    """
    from ridgeline.service.registry import process_there, send_signal

    entry = target.entry
    if not process_there(entry):
        raise CommandError(_elsewhere(target, remote.app))
    try:
        if send_signal(entry.pid, entry.process, number):
            write(f"the process {entry.pid} got {number.name}")
    except PermissionError:
        raise CommandError(
            f"the process {entry.pid} is another user's; ask `{entry.user}` to end it"
        ) from None
    if not remote.no_wait:
        _wait_for_end(target, remote)
        write(f"{remote.app} has ended")


def _elsewhere(target: Target, app: str) -> str:
    """The error about an application that neither answers nor runs on this machine."""
    from ridgeline.engine.spark.cluster import is_yarn_id

    entry, found = target.entry, None if target.how is None else target.how.found.entry
    ways = [f"run the command there (`ridgeline stop {app} --now` ends it at once)"]
    if found is not None and is_yarn_id(found.cluster_id):
        ways.append(f"let YARN end it by `yarn application -kill {found.cluster_id}`")
    ways.append("start it again with its checkpoint: that fences it off")
    where = f"`{app}` does not answer, and its process {entry.pid} is on `{entry.host}`"
    return f"{where}; {', or '.join(ways)}"


def _wait_for_end(target: Target, remote: Change) -> None:
    """Wait until its process on this machine is gone. Raises RidgelineError after `--timeout`."""
    from ridgeline.cli.applications.resolving import await_end

    if not remote.no_wait and not await_end(target.entry, remote.timeout):
        raise RidgelineError(
            f"`{remote.app}` still runs after {remote.timeout:g} s; `ridgeline stop {remote.app} --now` "
            "ends it"
        )


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise CommandError(f"{question} there is no terminal to ask at; give `--yes`")
    return typer.confirm(question)
