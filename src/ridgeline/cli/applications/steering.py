"""The commands `stop` and `kill`."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.cli.errors import CommandError, make_console
from ridgeline.cli.output import write
from ridgeline.cli.remote.options import Change

if TYPE_CHECKING:
    from ridgeline.cli.applications.resolving import Target
    from ridgeline.service.store.folder import EntryFolder

_CLOCK = SystemClock()
_POLL_SECONDS = 0.1
_GRACE_SECONDS = 60
"""How long the windows under way of a driver in a pod may take, once it is to end; as in the chart."""
_KILL_SECONDS = 1
_SUPERVISOR_SECONDS = 5.0
"""How long a supervisor may take to end once its driver is killed."""


class _UnaskedError(RidgelineError):
    """A supervisor could not be asked, or a cluster did not do it: the application runs on."""


def stop(remote: Change) -> None:
    """End an application after the windows under way, by its name: all results are published.

    If its web service does not answer and it runs on this machine, its process gets SIGTERM. A supervisor
    ends too, also while it waits to start the next driver. One on another host is asked by a word in the
    store, which it reads every three seconds. The pod of a driver on Kubernetes is removed: it gets SIGTERM.

    Example: `ridgeline stop payments --store /shared/streams`

    Exit codes: 0 ended, 1 still running after `--timeout`, 2 none of this name runs, or not allowed.
    """
    target = _target(remote)
    if not _answers(target, remote):
        if _supervised_here(target) or _here(target):
            with _standbys_end(target, remote):
                _end_here(target, remote, signal.SIGTERM)
            return
        if _supervised_elsewhere(target):
            with _standbys_end(target, remote):
                folder = _ask_supervisor(target, remote, "stop")
            _await_supervisor(target, remote, folder)
            return
        if _in_pod(target):
            _end_pod(target, _GRACE_SECONDS)
            _await_driver(target, remote)
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
    its supervisor ends before that. If it runs elsewhere, its supervisor is asked by a word in the store, and
    YARN or Kubernetes ends it. A driver that YARN runs is ended there in any case. The next start with its
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
        if _is_in_cluster(target):
            _end_attempts(target)
    elif _is_in_cluster(target):
        with _standbys_end(target, remote):
            _kill_at_cluster(target, remote)
    elif _supervised_here(target) or _here(target):
        with _standbys_end(target, remote):
            _end_here(target, remote, signal.SIGKILL)
    elif _supervised_elsewhere(target):
        with _standbys_end(target, remote):
            folder = _ask_supervisor(target, remote, "kill")
        _await_supervisor(target, remote, folder)
        return
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


def _supervised_here(target: Target) -> bool:
    """Whether its supervisor is a process of this machine that lives."""
    from ridgeline.service.registry import process_identity

    entry = target.entry
    return bool(
        entry.supervisor
        and entry.supervisor_process
        and entry.host == socket.gethostname()
        and process_identity(entry.supervisor) == entry.supervisor_process
    )


def _supervised_elsewhere(target: Target) -> bool:
    """Whether its supervisor is a process of another host, which reads the store."""
    entry = target.entry
    return target.how is not None and bool(entry.supervisor) and entry.host != socket.gethostname()


def _end_here(target: Target, remote: Change, number: signal.Signals) -> None:
    """End the processes of an application on this machine: first its supervisor, which would start a driver.

    A supervisor passes SIGTERM on. One that does not end is killed by SIGKILL if its driver is to be.
    Raises CommandError, RidgelineError.
    """
    from ridgeline.service.supervised import of_process

    entry = target.entry
    supervised = _supervised_here(target)
    if supervised:
        _signal(target, entry.supervisor, entry.supervisor_process, signal.SIGTERM, "the supervisor")
    managed = number == signal.SIGKILL and _is_managed(entry.pid)
    if number == signal.SIGKILL or not supervised:
        _signal(target, entry.pid, entry.process, number)
    above = of_process(entry.supervisor, entry.supervisor_process) if supervised else None
    if number == signal.SIGKILL and above is not None and above.driver != entry.pid:  # the next one already
        _signal(target, above.driver, above.driver_process, number)
    if number == signal.SIGKILL and supervised and not _gone_within(target, _SUPERVISOR_SECONDS, asked=True):
        _signal(target, entry.supervisor, entry.supervisor_process, signal.SIGKILL, "the supervisor")
    if not remote.no_wait:
        _wait_for_end(target, remote, asked=supervised)
        write(f"{remote.app} has ended")
    if managed:
        write("a service manager had started it, and may start it again: `systemctl stop` ends its unit")


def _is_managed(pid: int) -> bool:
    """Whether a service manager has started a process of this machine."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")  # as it was started
    except OSError:
        return False
    return any(one.startswith(b"NOTIFY_SOCKET=") for one in variables)


def _signal(
    target: Target, pid: int, process: str, number: signal.Signals, what: str = "the process"
) -> None:
    """Send a signal to a process that is still the one that was meant. Raises CommandError."""
    from ridgeline.service.registry import send_signal

    try:
        if send_signal(pid, process, number):
            write(f"{what} {pid} got {number.name}")
    except PermissionError:
        raise CommandError(
            f"the process {pid} is another user's; ask `{target.entry.user}` to end it"
        ) from None


def _gone_within(target: Target, seconds: float, *, asked: bool) -> bool:
    """Wait until no process of it is left on this machine, so long at most.

    `asked`: its supervisor was asked to end. Else it is, once it would start another driver.
    """
    from ridgeline.service.supervised import RESTARTING, of_process

    entry = target.entry
    deadline = _CLOCK.monotonic() + seconds
    while _here(target) or _supervised_here(target):
        if _CLOCK.monotonic() > deadline:
            return False
        if entry.supervisor and not asked:
            above = of_process(entry.supervisor, entry.supervisor_process)
            if above is not None and above.state == RESTARTING:  # the driver was killed while it ended
                _signal(target, entry.supervisor, entry.supervisor_process, signal.SIGTERM, "the supervisor")
                asked = True
        _CLOCK.wait(_POLL_SECONDS)
    return True


def _wait_for_end(target: Target, remote: Change, *, asked: bool = False) -> None:
    """Wait until its processes are gone. `asked`: as above. Raises RidgelineError after `--timeout`."""
    if not remote.no_wait and not _gone_within(target, remote.timeout, asked=asked):
        raise RidgelineError(
            f"`{remote.app}` still runs after {remote.timeout:g} s; `ridgeline kill {remote.app}` ends it"
        )


def _ask_supervisor(target: Target, remote: Change, what: Literal["stop", "kill"]) -> EntryFolder:
    """Leave a word in the store for a supervisor on another host. Returns the store's entries.

    Raises _UnaskedError.
    """
    from ridgeline.cli.applications.resolving import store_of
    from ridgeline.cli.remote.change_request import who
    from ridgeline.service.store.folder import EntryFolder

    entry = target.entry
    folder = EntryFolder(store_of(remote.store) or "")
    word = {"word": what, "pid": entry.supervisor, "process": entry.supervisor_process, "who": who()}
    try:
        folder.write_word(entry.name, {**word, "at": _CLOCK.wall(), "note": remote.note})
    except RidgelineError as error:
        raise _UnaskedError(str(error)) from error
    write(f"asked its supervisor, process {entry.supervisor} on `{entry.host}`, by a word in the store")
    return folder


def _await_supervisor(target: Target, remote: Change, folder: EntryFolder) -> None:
    """Wait until a supervisor on another host has done what the word says.

    Raises RidgelineError after `--timeout`, and if the store cannot be read.
    """
    entry = target.entry
    if remote.no_wait:
        return
    deadline = _CLOCK.monotonic() + remote.timeout
    while True:
        found = folder.read(entry.name)
        now = None if found is None else found.entry
        if now is None or now.supervisor is None or now.supervisor.pid != entry.supervisor:
            break
        if not now.lives:
            break
        if _CLOCK.monotonic() > deadline:
            taken = folder.read_word(entry.name) is None
            does = "has read it, and its driver still runs" if taken else "has not read it, and may be gone"
            raise RidgelineError(
                f"after {remote.timeout:g} s the supervisor {does}; run `ridgeline kill {remote.app}` on "
                f"`{entry.host}`, or start it again with its checkpoint once it is dead: that fences it off"
            )
        _CLOCK.wait(_POLL_SECONDS)
    write(f"{remote.app} has ended")


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise CommandError(f"{question} there is no terminal to ask at; give `--yes`")
    return typer.confirm(question)


def _kill_at_cluster(target: Target, remote: Change) -> None:
    """Let the cluster end what cannot be reached.

    Raises CommandError where that is not possible, and _UnaskedError where the cluster did not.
    """
    if _in_pod(target):
        _end_pod(target, _KILL_SECONDS)
        return
    found = None if target.how is None else target.how.found.entry
    from ridgeline.engine.spark.cluster import end_on_yarn, is_yarn_id

    entry = target.entry
    if found is None or not found.master.startswith("yarn") or not is_yarn_id(found.cluster_id):
        raise CommandError(
            f"`{remote.app}` does not answer, and its process {entry.pid} is on `{entry.host}`; run "
            "`ridgeline kill` there, or start it again with its checkpoint: that fences it off"
        )
    try:
        end_on_yarn(found.cluster_id)
    except RidgelineError as error:
        raise _UnaskedError(str(error)) from error
    write(f"YARN has ended {found.cluster_id}")


def _is_in_cluster(target: Target) -> bool:
    """Whether its driver runs on YARN, or in a pod of Kubernetes."""
    from ridgeline.engine.spark.cluster import is_driver_id

    found = None if target.how is None else target.how.found.entry
    return found is not None and found.deploy_mode == "cluster" and is_driver_id(found.cluster_id)


def _in_pod(target: Target) -> bool:
    """Whether its driver runs in a pod that `submit` had Spark make."""
    from ridgeline.engine.spark.cluster import is_pod_id

    found = None if target.how is None else target.how.found.entry
    return _is_in_cluster(target) and found is not None and is_pod_id(found.cluster_id)


def _end_pod(target: Target, grace_seconds: int) -> None:
    """Let Kubernetes remove the pod of a driver. Raises _UnaskedError."""
    from ridgeline.engine.spark.cluster import end_on_kubernetes

    found = None if target.how is None else target.how.found.entry
    assert found is not None  # noqa: S101  it is in a pod
    try:
        end_on_kubernetes(found.master, found.cluster_id, grace_seconds=grace_seconds)
    except RidgelineError as error:
        raise _UnaskedError(str(error)) from error
    write(f"Kubernetes removes the pod {found.cluster_id}")


def _await_driver(target: Target, remote: Change) -> None:
    """Wait until the entry of a driver says that it has ended. Raises RidgelineError after `--timeout`."""
    from ridgeline.cli.applications.resolving import store_of
    from ridgeline.service.store.folder import EntryFolder
    from ridgeline.service.store.standing import standing

    if remote.no_wait:
        return
    folder, before = EntryFolder(store_of(remote.store) or ""), target.how
    deadline = _CLOCK.monotonic() + remote.timeout
    while before is not None and before.found.entry is not None:
        found = folder.read(before.found.name)
        now = None if found is None else found.entry
        if found is None or now is None or now.start != before.found.entry.start:
            break
        if not standing(folder, found).lives:
            break
        if _CLOCK.monotonic() > deadline:
            raise RidgelineError(
                f"`{remote.app}` still runs after {remote.timeout:g} s; `ridgeline kill {remote.app}` ends it"
            )
        _CLOCK.wait(_POLL_SECONDS)
    write(f"{remote.app} has ended")


def _end_attempts(target: Target) -> None:
    """Let YARN end an application whose driver was killed: it would start another one.

    Where YARN cannot be asked, that one sees in the store that it was killed, and ends. Kubernetes starts
    none.
    """
    from ridgeline.engine.spark.cluster import end_on_yarn, is_yarn_id

    found = None if target.how is None else target.how.found.entry
    if found is not None and is_yarn_id(found.cluster_id):
        with contextlib.suppress(RidgelineError):
            end_on_yarn(found.cluster_id)
            write(f"YARN has ended {found.cluster_id}")


@contextlib.contextmanager
def _standbys_end(target: Target, remote: Change) -> Iterator[None]:
    """Say in the store that the block ends the application: its standbys do not take over.

    It is said before, as a standby may be quick, and taken back if the block is refused.
    """
    entry = None if target.how is None else target.how.found.entry
    if entry is None:
        yield
        return
    from ridgeline.cli.applications.resolving import store_of
    from ridgeline.service.store.folder import EntryFolder
    from ridgeline.service.store.presence import ask_end, is_end_asked, take_back_end

    folder, said = EntryFolder(store_of(remote.store) or ""), False
    try:
        if not is_end_asked(folder, entry):
            said = True
            ask_end(folder, entry)
    except RidgelineError as error:
        make_console().print(f"{error}; a standby of `{remote.app}` would take over", markup=False)
    try:
        yield
    except (CommandError, _UnaskedError):
        if said:
            try:
                take_back_end(folder, entry)
            except RidgelineError as error:
                text = f"{error}; if its driver dies now, a standby of `{remote.app}` ends, too"
                make_console().print(text, markup=False)
        raise


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
        if last is not None and last.start == entry.start and last.state != "ended":
            folder.write(replace(last, state="failed", reason=f"killed by {who()}", final=True))
