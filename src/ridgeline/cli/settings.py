"""What `ridgeline run` was asked to do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ridgeline.api.support.masking import mask, mask_text
from ridgeline.api.support.secret_names import is_secret
from ridgeline.engine.driver.execution_kind import Execution
from ridgeline.engine.process.log_channel import LogFormat, LogSettings

DEFAULT_MASTER = "local[*]"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PROFILE = "profile"
DEFAULT_PROFILE_SECONDS = 30
RUN_OPTIONS = (
    "--app",
    "--conf-set",
    "--archives",
    "--master",
    "--conf",
    "--execution",
    "--tls-cert",
    "--tls-key",
    "--checkpoint",
    "--reset-properties",
    "--reset-changes",
    "--drop-state",
    "--rename",
    "--from-window",
    "--attribute",
    "--windows",
    "--quiet",
    "--event-log",
    "--log-level",
    "--log-file",
    "--log-format",
    "--otlp-endpoint",
    "--profile",
    "--profile-folder",
    "--profile-seconds",
    "--port",
    "--host",
    "--token",
    "--read-token",
    "--allow-host",
    "--no-service",
    "--conf-file",
    "--no-config",
    "--help",
)


@dataclass(frozen=True, slots=True)
class Service:
    """Where the web service of a run listens.

    Port 0 is a free one. `token` is what it asks for, `read_token` is enough to read. `allowed_hosts` are
    further names that it answers to.
    """

    host: str = DEFAULT_HOST
    port: int = 0
    token: str | None = None
    allowed_hosts: Sequence[str] = ()
    read_token: str | None = None


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """Where a profile of a run is written, and for how many seconds flame graphs are recorded at most."""

    folder: str = DEFAULT_PROFILE
    seconds: int = DEFAULT_PROFILE_SECONDS


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The command line of `ridgeline run`, as it was given.

    `spark`: the settings of Spark, those of configuration included.
    """

    target: str
    master: str = DEFAULT_MASTER
    conf: Sequence[str] = ()
    checkpoint: str | None = None
    properties: Sequence[str] = ()
    attributes: Sequence[str] = ()
    windows: int | None = None
    quiet: bool = False
    options: Sequence[str] = field(default=())
    service: Service | None = field(default_factory=Service)
    event_log: str | None = None
    otlp: str | None = None
    profile: ProfileSettings | None = None
    log: LogSettings | None = None
    execution: Execution | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    conf_files: Sequence[str] = ()
    no_config: bool = False
    app_name: str | None = None
    conf_set: str | None = None
    archives: str | None = None
    from_window: int | None = None

    def command(self, checkpoint: str) -> str:
        """The same command, continuing from a checkpoint.

        Secrets are masked: give them again. Without tokens, which belong into no log, and without the event
        log and the profile, which exist already. It is not rewound again. What was forgotten at the start is
        not forgotten again: that would be what changes of the running application have made since.
        """
        words = ["ridgeline", "run", self.target]
        for option, given in (
            ("--app", self.app_name),
            ("--conf-set", self.conf_set),
            ("--master", self.master if self.master != DEFAULT_MASTER else None),
            ("--execution", self.execution),
            ("--archives", self.archives),
            ("--tls-cert", self.tls_cert),
            ("--tls-key", self.tls_key),
        ):
            if given is not None:
                words += [option, given]
        for file in self.conf_files:
            words += ["--conf-file", file]
        if self.no_config:
            words.append("--no-config")
        for option, values in (
            ("--conf", self.conf),
            ("-D", self.properties),
            ("--attribute", self.attributes),
        ):
            for value in values:
                words += [option, _masked(value)]
        if self.windows is not None:
            words += ["--windows", str(self.windows)]
        if self.quiet:
            words.append("--quiet")
        if self.otlp is not None:
            words += ["--otlp-endpoint", mask_text(self.otlp)]
        words += self._log_options() + self._service_options()
        return shlex.join([*words, "--checkpoint", mask_text(checkpoint), *self._guarded_options()])

    def _log_options(self) -> list[str]:
        if self.log is None:
            return []
        words = ["--log-level", self.log.level]
        if self.log.file is not None:
            words += ["--log-file", self.log.file]
        return words if self.log.format is LogFormat.TEXT else [*words, "--log-format", self.log.format]

    def _service_options(self) -> list[str]:
        if self.service is None:
            return ["--no-service"]
        words = []
        if self.service.port:
            words += ["--port", str(self.service.port)]
        if self.service.host != DEFAULT_HOST:
            words += ["--host", self.service.host]
        for name in self.service.allowed_hosts:
            words += ["--allow-host", name]
        return words

    def _guarded_options(self) -> list[str]:
        """The application's options; behind `--` if one of them has the name of the command's own."""
        own = set(RUN_OPTIONS)
        clash = any(option.partition("=")[0] in own or option.startswith("-D") for option in self.options)
        shown = _masked_options(self.options)
        return ["--", *shown] if clash else shown

    @property
    def ending(self) -> str:
        """How the run will end, in one line."""
        finished = "when all inputs have finished"
        if self.windows is not None:
            finished = f"after {self.windows:,} window{'' if self.windows == 1 else 's'}, or {finished}"
        return f"ends {finished}; Ctrl-C ends it after the windows under way"


def _masked(assignment: str) -> str:
    """`name=value` without a secret."""
    name, equals, value = assignment.partition("=")
    return f"{name}{equals}{mask(name, value)}"


def _masked_options(options: Sequence[str]) -> list[str]:
    """The application's options without secrets: `--token=x`, `--token x`."""
    shown: list[str] = []
    for option, before in zip(options, ["", *options], strict=False):
        is_value = before.startswith("--") and "=" not in before and not option.startswith("--")
        if option.startswith("--") and "=" in option:
            shown.append(_masked(option))
        else:
            shown.append(mask(before, option) if is_value and is_secret(before) else mask_text(option))
    return shown
