"""The command `systemd-unit`: prints a unit that keeps an application running."""

from __future__ import annotations

import getpass
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ridgeline.api.support.masking import MASK
from ridgeline.api.support.secrets.providers import names_provider
from ridgeline.cli.configuration import WORDS, configuration, load_configured
from ridgeline.cli.errors import FINAL, NOT_VALID, CommandError
from ridgeline.cli.output import OUTPUT_GONE, write
from ridgeline.cli.settings import RunSettings

_OWN = {"--user-unit"}
_CARRIED = (
    "HADOOP_CONF_DIR",
    "JAVA_HOME",
    "PYSPARK_PYTHON",
    "PYTHONPATH",
    "RIDGELINE_HOME",
    "RIDGELINE_TRUST",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
    "YARN_CONF_DIR",
)
"""Variables that the unit gets with their values of now; none of them is a secret."""
_TEXT = """\
# Written by `ridgeline systemd-unit`. As {place}
# it is started by: {control} daemon-reload && {control} enable --now {name}.service
[Unit]
Description=Ridgeline application {name}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec={within}
StartLimitBurst={burst}

[Service]
Type=notify
NotifyAccess=main
{user}WorkingDirectory={folder}
{environment}EnvironmentFile=-{secrets}
ExecStart={command}
Restart=on-failure
RestartPreventExitStatus={final}
RestartSec={first}
RestartSteps={steps}
RestartMaxDelaySec={most}
TimeoutStartSec=5min
TimeoutStopSec=5min
WatchdogSec=2min
KillMode=mixed
OOMPolicy=continue
LimitNOFILE=65536

[Install]
WantedBy={target}
"""


def systemd_unit(
    context: typer.Context,
    settings: RunSettings,
    user_unit: Annotated[
        bool,
        typer.Option(
            "--user-unit", help="For the manager of this user (`systemctl --user`), not of the system."
        ),
    ] = False,
) -> None:
    """Print a unit of systemd that runs APP with these options, those of `run`, and starts it again.

    It is of `Type=notify`: started once the first window is committed, and its status is the sentence of
    `ridgeline status`. A driver that hangs for two minutes is started again. One that no restart can mend is
    not: its exit code says so. `--back-off` and `--give-up` are about pauses and the end of tries here, too.

    The unit holds no secret: those in the command are refused, and variables belong in the file that its
    `EnvironmentFile=` names. Relative paths count from this folder.

    Example: `ridgeline systemd-unit payments.py --checkpoint /srv/state --event-log events.jsonl >
    payments.service`
    """
    settings = settings.beside(configuration(context).run.conf, context.args)
    configured = load_configured(context, settings.written)
    configured.plan()  # faults are shown here, and not in the journal
    settings = settings.stored(configured.app.name)  # refused if it cannot be a name
    name = settings.service.store_name or configured.app.name
    _check(settings)
    words = _run_words(context.meta[WORDS])
    _check_secrets(settings, words)
    policy = settings.supervision.policy()
    folder = "~/.config/systemd/user" if user_unit else "/etc/systemd/system"
    carried = [
        f"Environment={quoted(f'{one}={os.environ[one]}', expands=False)}\n"
        for one in _CARRIED
        if os.environ.get(one)
    ]
    write(
        _TEXT.format(
            place=f"{folder}/{name}.service",
            control="systemctl --user" if user_unit else "systemctl",
            name=name,
            within=f"{policy.within:g}",
            burst=policy.failures,
            user="" if user_unit else f"User={getpass.getuser()}\n",
            folder=str(Path.cwd()).replace("%", "%%"),
            environment="".join(carried),
            secrets=f"{'%h/.config' if user_unit else '/etc'}/ridgeline/{name}.env",
            command=" ".join(map(quoted, [sys.executable, "-m", "ridgeline", "run", *words])),
            final=f"{NOT_VALID} {FINAL} {OUTPUT_GONE}",
            first=f"{policy.first:g}",
            steps=max(1, math.ceil(math.log2(max(1.0, policy.most / policy.first)))),
            most=f"{policy.most:g}",
            target="default.target" if user_unit else "multi-user.target",
        ).rstrip("\n")
    )


def _check(settings: RunSettings) -> None:
    """Raise CommandError for options that fit no unit."""
    if settings.options.checkpoint is None and settings.service.store is None:
        msg = "a unit needs `--checkpoint`, or `--store`: each start would begin from nothing without one"
        raise CommandError(msg)
    if settings.supervision.supervise:
        msg = "systemd starts the driver again itself, by `--back-off` and `--give-up`; leave `--supervise`"
        raise CommandError(msg)
    if settings.profiling.profile:
        msg = "`--profile` is about one run; leave it out of a unit"
        raise CommandError(msg)
    if given := settings.given_resume():
        msg = f"`--{given}` would count at each start of the unit; give it once, to `ridgeline run`, "
        raise CommandError(msg + "before that")


def _check_secrets(settings: RunSettings, words: Sequence[str]) -> None:
    """Raise CommandError if the command holds a secret: all users can read a unit."""
    service = settings.service
    for option, value in (
        ("--token", service.token),
        ("--read-token", service.read_token),
        ("--oidc-client-secret", service.oidc_client_secret),
    ):
        given = any(word == option or word.startswith(f"{option}=") for word in words)
        if given and not names_provider(value):
            variable = f"RIDGELINE_{option[2:].replace('-', '_').upper()}"
            msg = f"all users can read a unit, so `{option}` cannot hold a secret there; give `{option} "
            msg += f"file:/PATH`, or `{variable}` in its `EnvironmentFile=`"
            raise CommandError(msg)
    if MASK in _without_places(settings).command(""):
        msg = "all users can read a unit, and a secret is in the command; name its place: `env:NAME`, "
        msg += "`file:/PATH` or `command:WORDS`"
        raise CommandError(msg)


def _without_places(settings: RunSettings) -> RunSettings:
    """The settings without values that name the place of a secret: these are masked as secrets are."""
    conf = {name: value for name, value in settings.options.conf.items() if not names_provider(value)}
    given = settings.written.properties or ()
    properties = [one for one in given if not names_provider(one.partition("=")[2])]
    options, written = (
        replace(settings.options, conf=conf),
        replace(settings.written, properties=properties),
    )
    return replace(settings, options=options, written=written)


def _run_words(words: Sequence[str]) -> list[str]:
    """The words of this command as those of `run`."""
    end = words.index("--") if "--" in words else len(words)
    return [*(word for word in words[:end] if word not in _OWN), *words[end:]]


def quoted(word: str, *, expands: bool = True) -> str:
    """A word of a line of a unit, which systemd takes as it was.

    `expands`: the line is a command, in which `$` begins the name of a variable.

    >>> quoted("a b"), quoted("50%"), quoted("$HOME"), quoted("plain")
    ('"a b"', '"50%%"', '"$$HOME"', 'plain')
    """
    if word and all(one.isalnum() or one in "./_-=:,@+[]*" for one in word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = "".join(one if one.isprintable() else _code(one) for one in escaped)
    return f'"{escaped.replace("$", "$$") if expands else escaped}"'


def _code(character: str) -> str:
    """A character that cannot stand in a line, as systemd writes it."""
    return "".join(f"\\x{byte:02x}" for byte in character.encode())
