"""Finds an application by its name: in the registry of this machine, and in a store."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.support.masking import mask_text
from ridgeline.cli.errors import CommandError
from ridgeline.service import registry

if TYPE_CHECKING:
    from ridgeline.cli.remote.client import Client
    from ridgeline.service.store.folder import EntryFolder, Found
    from ridgeline.service.store.standing import Standing


_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Target:
    """An application that was named: how to ask it, and what the store says (None: it is in none)."""

    entry: registry.Entry
    how: Standing | None = None

    def client(self, token: str | None) -> Client:
        """A client of its web service. Raises CommandError if it has none that can be asked from here."""
        from ridgeline.cli.remote.client import Client
        from ridgeline.service.store.standing import reachable

        found = None if self.how is None else self.how.found.entry
        if self.how is not None and found is not None:
            if not self.how.lives:
                raise CommandError(not_running(self.how))
            if not found.url:
                what = "is starting" if found.state == "starting" else "runs without a web service"
                raise CommandError(
                    f"`{found.name}` {what}, so it cannot be asked; `ridgeline ps` says how it stands"
                )
            if not reachable(found):
                raise CommandError(f"`{found.name}` cannot be asked from here: {self.how.words}")
        return Client(self.entry.url, self.entry.token or token)


def store_of(given: str | None) -> str | None:
    """The store that was given, else that of configuration (`run.store`); None for none."""
    if given:
        return given
    from ridgeline.settings.files import outer_layers

    if not (layers := outer_layers(os.environ, (), automatic=True, faults=[])):
        return None
    from ridgeline.settings.resolving import run_options

    found = run_options(layers, ["store"], os.environ, [])
    store = found.options.get("store")
    return str(store) if store else None


def locate(app: str, store: str | None) -> Target:
    """The application with this name or id. Raises CommandError if there is none."""
    store = store_of(store)
    if store is None:
        try:
            return Target(registry.find(app))
        except RidgelineError as error:
            hint = "; for one in a store give `--store URL`" if "://" not in app else ""
            raise CommandError(f"{error}{hint}") from None
    from ridgeline.service.store.folder import EntryFolder
    from ridgeline.service.store.standing import standing

    folder = EntryFolder(store)
    here = registry.running()
    found = _found(folder, app)
    if found is None or (found.entry is not None and not found.entry.lives):
        own = [one for one in here if app in {one.name, one.id}]
        if own:
            return Target(registry.find(app))
    if found is None:
        names = [one.name for one in folder.entries()]
        hint = did_you_mean(app, names) if names else "the store has no application"
        raise CommandError(f"there is no application `{app}` in the store `{mask_text(folder.uri)}`; {hint}")
    how = standing(folder, found)
    if found.entry is None:
        raise CommandError(f"`{app}` cannot be asked: {found.fault}")
    by_id = {one.id: one for one in here}
    return Target(by_id.get(found.entry.id) or found.entry, how)


def _found(folder: EntryFolder, app: str) -> Found | None:
    """The file of a name, or of an id."""
    from ridgeline.service.store.folder import is_name

    found = folder.read(app) if is_name(app) else None
    if found is not None:
        return found
    return next((one for one in folder.entries() if one.entry is not None and one.entry.id == app), None)


def await_end(entry: registry.Entry, seconds: float) -> bool:
    """Wait until an application's process on this machine is gone, for so long at most; whether it is."""
    clock = SystemClock()
    until = clock.monotonic() + seconds
    while registry.process_there(entry):
        if clock.monotonic() > until:
            return False
        clock.wait(_POLL_SECONDS)
    return True


def not_running(how: Standing) -> str:
    """The error about an application that does not run."""
    from ridgeline.engine.spark.cluster import is_yarn_id

    entry = how.found.entry
    logs = ""
    if entry is not None and entry.deploy_mode == "cluster" and is_yarn_id(entry.cluster_id):
        logs = f"`yarn logs -applicationId {entry.cluster_id}` shows what its driver printed, and "
    again = f"{logs}`ridgeline run APP --store-name {how.found.name}` with its `--store` starts it again"
    return f"`{how.found.name}` does not run, it is {how.state}: {how.words or 'no reason is known'}; {again}"
