"""The commands `attach`, `stop` and `kill`."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.cli.errors import CommandError, make_console
from ridgeline.cli.output import write
from ridgeline.cli.remote.options import Change, Named

if TYPE_CHECKING:
    from ridgeline.cli.applications.resolving import Target

_CLOCK = SystemClock()
_POLL_SECONDS = 0.1


def attach(
    remote: Named,
    plain: Annotated[bool, typer.Option("--plain", help="The screen without keys.")] = False,
) -> None:
    """Show a running application live, as `ridgeline run` does. Ctrl-C leaves it: the application runs on.

    Example: `ridgeline attach payments --store /shared/streams`
    """
    from ridgeline.cli.remote.watching import top

    client = remote.connect()
    try:
        top(client, as_json=remote.as_json, plain=plain)
    finally:
        with contextlib.suppress(RidgelineError):
            client.get("/info")
            make_console().print(f"`{remote.app}` runs on; `ridgeline stop {remote.app}` ends it")


def stop(remote: Change) -> None:
    """End an application after the windows under way, by its name: all results are published.

    If its web service does not answer and it runs on this machine, its process gets SIGTERM.

    Example: `ridgeline stop payments --store /shared/streams`

    Exit codes: 0 ended, 1 still running after `--timeout`, 2 none of this name runs, or not allowed.
    """
    target = _target(remote)
    if _here(target) and not _answers(target, remote):
        _end_here(target, remote, signal.SIGTERM)
        return
    from ridgeline.cli.remote.change_request import ChangeSender, Waiting

    client = target.client(remote.token, remote.ca, remote.cert)
    waiting = Waiting(remote.no_wait, remote.timeout)
    ChangeSender(client, remote.app, waiting, remote.as_json).end("/shutdown", remote.note)
    if not remote.no_wait:
        _wait_for_end(target, remote)


def kill(
    remote: Change,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """End an application at once, by its name; the windows under way are void.

    You are asked first. If its web service does not answer, its process on this machine gets SIGKILL, and
    its supervisor ends before that. If it runs elsewhere on YARN, YARN ends it. The next start with its
    checkpoint runs the windows again, and fences off what might be left of this one.

    Example: `ridgeline kill payments --store /shared/streams --yes`

    Exit codes: 0 ended, 1 it could not be ended, 2 none of this name runs, or not allowed.
    """
    target = _target(remote)
    entry = target.entry
    if not yes and not _confirmed(f"end `{remote.app}` (process {entry.pid} on `{entry.host}`) at once?"):
        write(f"nothing was done: `{remote.app}` runs on")
        raise typer.Exit(2)
    if _answers(target, remote):
        from ridgeline.cli.remote.change_request import ChangeSender, Waiting

        client = target.client(remote.token, remote.ca, remote.cert)
        waiting = Waiting(remote.no_wait, remote.timeout)
        ChangeSender(client, remote.app, waiting, remote.as_json).end("/kill", remote.note)
    elif _here(target):
        _end_here(target, remote, signal.SIGKILL)
    else:
        _kill_at_cluster(target, remote)
    _note_end(target, remote)


def _target(remote: Change) -> Target:
    """The application. Raises CommandError if it does not run."""
    from ridgeline.cli.applications.resolving import Target, locate, not_running

    if remote.url is not None:
        from ridgeline.service import registry

        return Target(registry.find(remote.url if "://" in remote.url else f"http://{remote.url}"))
    target = locate(remote.app, remote.store)
    if target.how is not None and not target.how.lives:
        raise CommandError(not_running(target.how))
    return target


def _answers(target: Target, remote: Change) -> bool:
    """Whether its web service answers. Raises CommandError if it does not let this user in."""
    try:
        client = target.client(remote.token, remote.ca, remote.cert)
    except CommandError:
        return False
    try:
        client.get("/info")
    except CommandError:
        raise
    except RidgelineError:
        return False
    return True


def _here(target: Target) -> bool:
    """Whether its process is known and on this machine."""
    from ridgeline.service.registry import process_identity

    entry = target.entry
    return bool(
        entry.process and entry.host == socket.gethostname() and process_identity(entry.pid) == entry.process
    )


def _end_here(target: Target, remote: Change, number: signal.Signals) -> None:
    """End the process of an application on this machine, after its supervisor, which would start another.

    A supervisor passes SIGTERM on. Raises CommandError, RidgelineError.
    """
    from ridgeline.cli.supervising.link import supervisor_of
    from ridgeline.service.registry import process_identity

    above = supervisor_of(target.entry.pid)
    identity = None if above is None else process_identity(above)
    if above is not None and identity is not None:
        _signal(target, above, signal.SIGTERM, "the supervisor")
    if number == signal.SIGKILL or identity is None:
        _signal(target, target.entry.pid, number)
    _wait_for_end(target, remote)
    if remote.no_wait:
        return
    deadline = _CLOCK.monotonic() + remote.timeout
    while above is not None and identity is not None and process_identity(above) == identity:
        if _CLOCK.monotonic() > deadline:
            msg = f"the supervisor of `{remote.app}`, process {above}, still runs; end it with `kill {above}`"
            raise RidgelineError(msg)
        _CLOCK.wait(_POLL_SECONDS)
    write(f"{remote.app} has ended")


def _signal(target: Target, pid: int, number: signal.Signals, what: str = "the process") -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError:
        msg = f"the process {pid} is another user's; ask `{target.entry.user}` to end it"
        raise CommandError(msg) from None
    write(f"{what} {pid} got {number.name}")


def _wait_for_end(target: Target, remote: Change) -> None:
    """Wait until its process is gone. Raises RidgelineError after `--timeout`."""
    if remote.no_wait:
        return
    deadline = _CLOCK.monotonic() + remote.timeout
    while _here(target):
        if _CLOCK.monotonic() > deadline:
            msg = (
                f"`{remote.app}` still runs after {remote.timeout:g} s; `ridgeline kill {remote.app}` ends it"
            )
            raise RidgelineError(msg)
        _CLOCK.wait(_POLL_SECONDS)


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        msg = f"{question} there is no terminal to ask at; give `--yes`"
        raise CommandError(msg)
    return typer.confirm(question)


def _kill_at_cluster(target: Target, remote: Change) -> None:
    """Let the cluster end what cannot be reached. Raises CommandError where that is not possible."""
    found = None if target.how is None else target.how.found.entry
    from ridgeline.engine.spark.cluster import end_on_yarn, is_yarn_id

    entry = target.entry
    if found is None or not found.master.startswith("yarn") or not is_yarn_id(found.cluster_id):
        msg = (
            f"`{remote.app}` does not answer, and its process {entry.pid} is on `{entry.host}`; run "
            "`ridgeline kill` there, or start it again with its checkpoint: that fences it off"
        )
        raise CommandError(msg)
    end_on_yarn(found.cluster_id)
    write(f"YARN has ended {found.cluster_id}")


def _note_end(target: Target, remote: Change) -> None:
    """Say in the store that it was killed, unless another driver has the name by now."""
    if target.how is None or target.how.found.entry is None:
        return
    from ridgeline.cli.applications.resolving import store_of
    from ridgeline.cli.remote.change_request import who
    from ridgeline.service.store.folder import EntryFolder

    store = store_of(remote.store)
    entry = target.how.found.entry
    with contextlib.suppress(RidgelineError):
        folder = EntryFolder(store or "")
        now = folder.read(entry.name)
        last = None if now is None else now.entry
        if last is not None and last.start == entry.start and last.state in {"starting", "running"}:
            folder.write(replace(last, state="failed", reason=f"killed by {who()}"))
