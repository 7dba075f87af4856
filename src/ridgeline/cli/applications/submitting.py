"""The command `submit`: starts an application that lives on by itself, under a name in a store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.cli.configuration import WORDS, configuration, load_configured
from ridgeline.cli.errors import CommandError
from ridgeline.cli.output import write
from ridgeline.cli.settings import RunSettings

if TYPE_CHECKING:
    from ridgeline.cli.cluster.taken import Taken
    from ridgeline.plan.execution import Plan
    from ridgeline.service.store.folder import EntryFolder
    from ridgeline.service.store.standing import Standing
    from ridgeline.settings.layers import Layer

_CLOCK = SystemClock()
_POLL_SECONDS = 0.3
_SAID_LINES = 15
_OWN = {"--name": 1, "--deploy-mode": 1, "--timeout": 1, "--detach": 0, "--wait": 0}
"""Options of `submit` that `run` does not have, and how many words follow each."""
_SECRET = {
    "--token": "RIDGELINE_TOKEN",
    "--read-token": "RIDGELINE_READ_TOKEN",
    "--oidc-client-secret": "RIDGELINE_OIDC_CLIENT_SECRET",
}
"""Options that travel in the environment: words of a command can be read by all users of a machine."""
_STORE = "RIDGELINE_STORE"
_REPLACED = {"--store": 1, "--store-name": 1, "--checkpoint": 1}


def submit(
    context: typer.Context,
    settings: RunSettings,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Its name in the store. Default: the application's own."),
    ] = None,
    deploy_mode: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="Where the driver runs: `client`, a process of this host, or `cluster`, on a node of YARN "
            "or in a pod of Kubernetes.",
        ),
    ] = "client",
    detach: Annotated[
        bool, typer.Option("--detach", help="Return once the driver is started, before it runs.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end. Ctrl-C leaves the application running.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="How long it may take until it runs.")
    ] = 300.0,
) -> None:
    """Start an application that runs on by itself, under a name in a store.

    It returns once the application runs, with the address of its page. From then on `ridgeline ps`, `top`,
    `logs`, `stop` and `kill` find it by its name, on any host that reaches the store. Its checkpoint is
    `STORE/NAME`: the same command continues from there. Options are those of `run`. An option `--name` of the
    application itself stands behind `--`. Without `--store` the store is that of `RIDGELINE_STORE`, which
    `run` does not read.

    With `--deploy-mode cluster` the driver runs in YARN's application master, or in a pod that Spark makes.
    The application's code, the files that options name, and configuration travel there. YARN starts the
    driver again if it dies. Kubernetes does not: then the same command continues.

    Example: `ridgeline submit payments.py --name payments --store /shared/streams --master spark://host:7077
    --archives env.tar.gz`

    Exit codes: 0 it runs, or with `--wait` has ended; 1 it failed, or does not run in time; 2 it is not
    valid. Also 2 if an application of that name runs.
    """
    if detach and wait:
        raise CommandError("`--detach` and `--wait` exclude each other; give one of them")
    store = _store(context, settings)
    if not store:
        raise CommandError(
            "`submit` needs a store, which keeps name and checkpoint; give `--store URL` or `RIDGELINE_STORE`"
        )
    settings = replace(settings, service=replace(settings.service, store=store))
    settings = settings.beside(configuration(context).run.conf, context.args)
    _check_mode(deploy_mode, settings.master)
    configured = load_configured(context, settings.written)
    plan = configured.plan()  # faults are shown here, and not in the log of the driver
    from ridgeline.service.store.folder import EntryFolder
    from ridgeline.service.store.presence import taken

    name = name or settings.service.store_name or configured.app.name
    settings = replace(settings, service=replace(settings.service, store_name=name))
    settings.stored(name)  # refused if it cannot be a name
    use_store(settings)
    folder = EntryFolder(store)
    if folder.is_local:
        Path(folder.uri).mkdir(parents=True, exist_ok=True)
    holder = _holder(folder, name)
    if holder is not None and not (settings.supervision.standby and holder.lives):
        raise CommandError(taken(holder))
    if deploy_mode == "cluster":
        layers = configuration(context).layers
        handed = _hand_over(folder, name, settings, layers, plan)
        _follow_on_cluster(handed, timeout, detach=detach, wait=wait)
        return
    submitted = _start_driver(folder, name, settings, context.meta[WORDS])
    write(f"{name}: started the driver, process {submitted.process.pid}; it prints to {submitted.log}")
    if detach:
        write(f"`ridgeline ps --store {folder.uri}` shows when it runs")
        return
    sys.stdout.flush()
    try:
        if holder is not None:
            _wait_until_it_stands_by(submitted, timeout)
        else:
            _wait_until_it_runs(submitted, timeout)
        if wait:
            _wait_for_end(submitted)
    except KeyboardInterrupt:
        write(f"{name} goes on without this command; `ridgeline stop {name} --store {folder.uri}` ends it")
        raise typer.Exit(130) from None


def _store(context: typer.Context, settings: RunSettings) -> str | None:
    """The store of the option, else of the environment, else of configuration; None for none."""
    source = context.get_parameter_source("store")
    given = source is not None and source.name == "COMMANDLINE"
    return settings.service.store if given else os.environ.get(_STORE) or settings.service.store


def _check_mode(mode: str, master: str) -> None:
    """Raises CommandError for a mode that there is not, or not with this master."""
    if mode not in {"client", "cluster"}:
        msg = f"`--deploy-mode {mode}` is none; give `client` or `cluster`"
        raise CommandError(msg)
    if mode == "client":
        return
    if master.startswith("local"):
        msg = f"`--deploy-mode cluster` needs a cluster, and `{master}` is this host; leave it out"
    elif master.startswith("spark://"):
        msg = (
            "`--deploy-mode cluster`: Spark's standalone master starts no drivers in Python (it says "
            "`Cluster deploy mode is currently not supported for python applications on standalone "
            "clusters`); run `ridgeline submit --supervise` on the host where the driver shall run"
        )
    elif master.startswith(("yarn", "k8s://")):
        return
    else:
        msg = f"`--deploy-mode cluster` with `{master}` is not there; submit with `--supervise` on a host"
    raise CommandError(msg)


def _hand_over(
    folder: EntryFolder, name: str, settings: RunSettings, layers: Sequence[Layer], plan: Plan
) -> Taken:
    """Hand a driver to the cluster of the master. Raises CommandError, RidgelineError."""
    if settings.master.startswith("k8s://"):
        from ridgeline.cli.cluster.kubernetes import submit_to_kubernetes

        return submit_to_kubernetes(folder, name, settings, layers)
    from ridgeline.cli.cluster.yarn import submit_to_yarn

    return submit_to_yarn(folder, name, settings, layers, plan)


def _follow_on_cluster(taken: Taken, timeout: float, *, detach: bool, wait: bool) -> None:
    """Follow a driver until the cluster has taken it, it runs or has ended.

    Raises RidgelineError, typer.Exit.
    """
    try:
        taken.wait_until_submitted(timeout)
        if detach:
            write(f"`ridgeline ps --store {taken.folder.uri}` shows when it runs")
            return
        entry = taken.wait_until_it_runs(timeout).found.entry
        _say_where(taken, "" if entry is None else entry.address, "" if entry is None else entry.id)
        if wait:
            taken.wait_for_end()
    except KeyboardInterrupt:
        name, store = taken.name, taken.folder.uri
        if taken.cluster_id:
            write(f"{name} goes on without this command; `ridgeline stop {name} --store {store}` ends it")
        else:
            write(f"{name}: {taken.cluster} had not taken it; `ridgeline ps` says whether it has since")
        raise typer.Exit(130) from None
    finally:
        taken.leave()


def use_store(settings: RunSettings) -> None:
    """Reach object stores with the settings of the run, where it has some."""
    if any(name.startswith("spark.hadoop.fs.s3a.") for name in settings.spark):
        from ridgeline.api.support.files import use_s3
        from ridgeline.engine.spark.s3 import s3_settings_of, s3a_from_environment

        use_s3(s3_settings_of({**s3a_from_environment(), **settings.spark}))


def _holder(folder: EntryFolder, name: str) -> Standing | None:
    """Who has the name, if one lives or is foreign. The driver looks again, and takes the name."""
    from ridgeline.service.store.standing import FOREIGN, standing

    found = folder.read(name)
    how = None if found is None else standing(folder, found)
    return how if how is not None and (how.lives or how.state == FOREIGN) else None


@dataclass(frozen=True, slots=True)
class _Submitted:
    """A driver that was started. `id`: of this submission, which its entry has."""

    folder: EntryFolder
    name: str
    id: str
    process: subprocess.Popen[bytes]
    log: Path

    def standing(self) -> Standing | None:
        """How it stands by its entry; None before it has one, or while the store cannot be read."""
        from ridgeline.service.store.standing import standing_of

        return standing_of(self.folder, self.name, self.id)


def _start_driver(folder: EntryFolder, name: str, settings: RunSettings, words: Sequence[str]) -> _Submitted:
    """Start `ridgeline run` in a session of its own, which outlives this command and its terminal."""
    from ridgeline.service.store.presence import SUBMISSION

    submission = uuid.uuid4().hex
    log = _log_file(name)
    secrets = {
        variable: value
        for variable, value in (
            ("RIDGELINE_TOKEN", settings.service.token),
            ("RIDGELINE_READ_TOKEN", settings.service.read_token),
            ("RIDGELINE_OIDC_CLIENT_SECRET", settings.service.oidc_client_secret),
        )
        if value
    }
    checkpoint = settings.options.checkpoint
    own = ["--store", folder.uri, "--store-name", name]
    own += [] if checkpoint is None else ["--checkpoint", checkpoint]
    own += [] if settings.view.quiet else ["--quiet"]
    command = [sys.executable, "-m", "ridgeline", "run", *own, *run_words(words)]
    said = json.dumps({"id": submission, "mode": "client", "log": str(log)})
    with open(log, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        process = subprocess.Popen(  # noqa: S603  ours
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **secrets, SUBMISSION: said},
        )
    return _Submitted(folder, name, submission, process, log)


def run_words(words: Sequence[str]) -> list[str]:
    """The words of a `submit` as those of `run`, without what is given in another way.

    >>> run_words(["app.py", "--wait", "--name", "a", "--timeout=3", "--token", "x", "--", "--wait"])
    ['app.py', '--', '--wait']
    """
    left_out = {**_OWN, **_REPLACED, **dict.fromkeys(_SECRET, 1)}
    kept: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*kept, word, *rest]
        option, equals, _ = word.partition("=")
        if option not in left_out:
            kept.append(word)
        elif left_out[option] and not equals and rest:
            rest.pop(0)
    return kept


def _log_file(name: str) -> Path:
    """A new file for what the driver prints, in a folder that others cannot read. Raises RidgelineError."""
    from ridgeline.api.support import trust

    home = os.environ.get("RIDGELINE_HOME")
    folder = (Path(home).expanduser() if home else Path.home() / ".ridgeline") / "logs"
    try:
        trust.private_folder(str(folder), "the folder for logs of drivers", "set `RIDGELINE_HOME`")
    except OSError as error:
        raise RidgelineError(
            f"`{folder}` cannot be made: {error.strerror}; set `RIDGELINE_HOME` to a folder of yours"
        ) from None
    at = datetime.fromtimestamp(_CLOCK.wall(), UTC).strftime("%Y%m%dT%H%M%S")
    return folder / f"{name}-{at}-{uuid.uuid4().hex[:6]}.log"


def _wait_until_it_runs(submitted: _Submitted, timeout: float) -> None:
    """Wait for the first sign that it runs, and say where it is. Raises RidgelineError if it fails."""
    deadline = _CLOCK.monotonic() + timeout
    said, attempt = "", 0
    while True:
        how = submitted.standing()
        entry = None if how is None else how.found.entry
        code = submitted.process.poll()
        if entry is not None and entry.state != said:
            said = entry.state
            if said == "starting":
                write(f"{submitted.name}: has the name, and starts Spark on {entry.master}")
                sys.stdout.flush()
        above = None if entry is None else entry.supervisor
        if how is not None and above is not None and above.attempt > attempt:
            attempt = above.attempt
            write(f"{submitted.name}: {how.words}")
            sys.stdout.flush()
        if entry is not None and entry.state in {"running", "ended"}:
            _say_where(submitted, entry.address, entry.id)
            return
        if code is not None:
            raise _failure(submitted, code)
        if _CLOCK.monotonic() > deadline:
            raise RidgelineError(
                f"`{submitted.name}` does not run after {timeout:g} s; its driver tries on: see "
                f"`{submitted.log}`, or end it by `ridgeline stop {submitted.name} --store "
                f"{submitted.folder.uri}`"
            )
        _CLOCK.wait(_POLL_SECONDS)


def _wait_until_it_stands_by(submitted: _Submitted, timeout: float) -> None:
    """Wait until the driver says that it waits as a standby, or runs. Raises RidgelineError if it fails."""
    deadline = _CLOCK.monotonic() + timeout
    while _CLOCK.monotonic() < deadline:
        with suppress(OSError):
            lines = submitted.log.read_text(errors="replace").splitlines()
            for line in (one for one in lines if one.startswith("standby: ")):
                write(f"{submitted.name}: {line.removeprefix('standby: ')}")
                return
        if submitted.standing() is not None:  # the other one has ended meanwhile
            _wait_until_it_runs(submitted, timeout)
            return
        if (code := submitted.process.poll()) is not None:
            raise _failure(submitted, code)
        _CLOCK.wait(_POLL_SECONDS)
    raise RidgelineError(
        f"`{submitted.name}` has no standby after {timeout:g} s; its driver tries on: see `{submitted.log}`"
    )


def _say_where(submitted: _Submitted | Taken, address: str, run: str) -> None:
    name, store = submitted.name, submitted.folder.uri
    write(f"{name} runs: run {run}" + (f", at {address}" if address else ", without a web service"))
    write(f"  see it:  ridgeline top {name} --store {store}")
    write(f"  end it:  ridgeline stop {name} --store {store}")
    sys.stdout.flush()


def _failure(submitted: _Submitted, code: int) -> RidgelineError:
    """The error of a driver that has ended, with the last lines that it printed."""
    with suppress(OSError):
        lines = submitted.log.read_text(errors="replace").splitlines()
        details = "\n".join(lines[-_SAID_LINES:])
        what = f"the driver of `{submitted.name}` has ended with code {code} before the application ran"
        error = CommandError(f"{what}; all that it printed is in `{submitted.log}`", details)
        return error if code == 2 else _FailedError(str(error), details)  # noqa: PLR2004  not valid
    return RidgelineError(f"the driver of `{submitted.name}` has ended with code {code}")


class _FailedError(RidgelineError):
    """A driver failed; `details` is what it printed last."""

    def __init__(self, message: str, details: str) -> None:
        super().__init__(f"{message}:\n{details}" if details else message)


def _wait_for_end(submitted: _Submitted) -> None:
    """Wait until the driver has ended. Raises typer.Exit with its code."""
    over = threading.Event()
    while (code := submitted.process.poll()) is None:
        over.wait(_POLL_SECONDS)
    how = submitted.standing()
    write(
        f"{submitted.name} has {'ended' if code == 0 else 'failed'}: {how.words if how is not None else code}"
    )
    if code:
        raise typer.Exit(code if code > 0 else 128 - code)


__all__ = ["run_words", "submit", "use_store"]
