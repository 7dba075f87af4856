"""The options of `ridgeline run`, in groups."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.masking import mask, mask_text
from ridgeline.api.support.option import Option
from ridgeline.api.support.secret_names import is_secret
from ridgeline.api.support.secrets.providers import provided_settings
from ridgeline.cli import options
from ridgeline.cli.arguments import Written
from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import build, fields_of, flag_of, option_names, options_of
from ridgeline.engine.driver.checkpoint.resuming import ResumeOptions
from ridgeline.engine.driver.run.options import Options
from ridgeline.engine.files.rotation import DEFAULT
from ridgeline.engine.process.log_channel import LogFormat, LogLevel, LogSettings
from ridgeline.engine.spark.submitted import DEFAULT_MASTER
from ridgeline.service.options import PANEL, ServiceOptions, rotation_of

if TYPE_CHECKING:
    from ridgeline.cli.supervising.link import Link
    from ridgeline.cli.supervising.supervisor import Policy

_CLUSTER, _LOG, _PROFILE, _SUPERVISION = "Cluster", "Log", "Profile", "Supervision"


@dataclass(frozen=True, kw_only=True)
class View:
    """How much is printed."""

    quiet: Annotated[bool, Option(help="Print nothing but errors and what operators print.")] = False


@dataclass(frozen=True, kw_only=True)
class Service(ServiceOptions):
    """Options of the service, and whether there is one."""

    no_service: Annotated[bool, Option(help="Start no web service.", panel=PANEL)] = False


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Files for the hosts of a cluster."""

    archives: Annotated[
        str | None,
        Option(
            metavar="FILE[#FOLDER]",
            help="A packed environment (`venv-pack`, `conda-pack`) for workers of a cluster: it is unpacked "
            "beside each executor, and its Python runs them.",
            panel=_CLUSTER,
        ),
    ] = None
    tls_cert: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="The certificate (PEM) for TLS between the hosts of a cluster; needs `--tls-key`. Default: "
            "one is made for the run.",
            panel=_CLUSTER,
        ),
    ] = None
    tls_key: Annotated[
        str | None,
        Option(metavar="FILE", help="The key of `--tls-cert` (PEM, no password).", panel=_CLUSTER),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Logs:
    """Level, place and form of the log."""

    log_level: Annotated[
        LogLevel | None,
        Option(
            help="Write what is logged, from this level on, to standard error or to `--log-file`.", panel=_LOG
        ),
    ] = None
    log_file: Annotated[
        str | None,
        Option(
            metavar="PATH",
            help="Append what is logged to PATH, from `--log-level` on (default: INFO). Workers of a "
            "cluster write to their own standard error.",
            panel=_LOG,
        ),
    ] = None
    log_format: Annotated[
        LogFormat, Option(help="`text`, or `json`: one JSON object a line.", panel=_LOG)
    ] = LogFormat.TEXT

    log_rotate: Annotated[
        str,
        Option(
            metavar="LIMITS",
            help="When the next file of `--log-file` begins: a size, a time, both (`256MB,1d`), or `off`.",
            panel=_LOG,
        ),
    ] = DEFAULT
    log_keep: Annotated[
        str,
        Option(
            metavar="LIMITS",
            help="How much of the log's earlier files is kept: files, size, age (`20,10GB`). Default: all.",
            panel=_LOG,
        ),
    ] = ""

    def settings(self) -> LogSettings | None:
        """The log; None for none.

        Raises CommandError for a format without a log, RidgelineError for limits that are none.
        """
        rotation = rotation_of("--log", self.log_rotate, self.log_keep)
        made = options.log_settings(self.log_level, self.log_file, self.log_format)
        return None if made is None else replace(made, rotation=rotation)


@dataclass(frozen=True, kw_only=True)
class Profiling:
    """Whether and where a profile is written."""

    profile: Annotated[
        bool,
        Option(
            help="Say at the end where a window's time goes, and write flame graphs of the driver and "
            "of a worker (by py-spy).",
            panel=_PROFILE,
            repeated=False,
        ),
    ] = False
    profile_folder: Annotated[
        str,
        Option(
            metavar="FOLDER",
            help="Where `--profile` writes its files; those of a run before are replaced.",
            panel=_PROFILE,
            repeated=False,
        ),
    ] = "profile"
    profile_seconds: Annotated[
        int,
        Option(
            metavar="N",
            help="How long flame graphs are recorded at most, from when windows are warm.",
            panel=_PROFILE,
            minimum=1,
            repeated=False,
        ),
    ] = 30


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """Whether and when a driver that died or failed is started again."""

    supervise: Annotated[
        bool,
        Option(
            help="Run the driver in a process of its own, and start it again if it dies or fails. Needs "
            "`--checkpoint`.",
            panel=_SUPERVISION,
        ),
    ] = False
    standby: Annotated[
        bool,
        Option(
            help="Wait while another driver has the name in the store, and take over if it dies or fails. "
            "Needs `--store`. On a standalone cluster it holds `spark.cores.max` cores meanwhile, if they "
            "are free.",
            panel=_SUPERVISION,
        ),
    ] = False
    take_over_after: Annotated[
        str,
        Option(
            metavar="TIME",
            help="How long a driver writes no heartbeat before a standby takes it for dead. They come every "
            "2 s.",
            panel=_SUPERVISION,
        ),
    ] = "6s"
    back_off: Annotated[
        str,
        Option(
            metavar="FIRST-MOST",
            help="The pause before the driver is started again: the first, which doubles up to the last.",
            panel=_SUPERVISION,
        ),
    ] = "1s-60s"
    back_off_reset: Annotated[
        str,
        Option(
            metavar="TIME",
            help="After windows have run for so long, the pause is the first again.",
            panel=_SUPERVISION,
        ),
    ] = "5m"
    give_up: Annotated[
        str,
        Option(
            metavar="N/TIME",
            help="Start it no more after N failures within TIME.",
            panel=_SUPERVISION,
        ),
    ] = "10/15m"

    def silent_seconds(self) -> float:
        """How long a driver writes no heartbeat before a standby takes it for dead. Raises CommandError."""
        from ridgeline.service.store.standing import BEAT_SECONDS

        seconds, least = _time("--take-over-after", self.take_over_after), 2 * BEAT_SECONDS
        if seconds < least:
            raise CommandError(
                f"`--take-over-after {self.take_over_after}`: a driver writes a heartbeat every "
                f"{BEAT_SECONDS:g} s, so give {least:g} s or more"
            )
        return seconds

    def policy(self) -> Policy:
        """When a driver is started again. Raises CommandError for times that are none."""
        from ridgeline.cli.supervising.supervisor import Policy

        first, _, most = self.back_off.partition("-")
        failures, _, within = self.give_up.partition("/")
        if not failures.isdecimal() or int(failures) < 1:
            raise CommandError(
                f"`--give-up {self.give_up}`: give a number of failures and a time, such as `10/15m`"
            )
        shortest, longest = _time("--back-off", first), _time("--back-off", most or first)
        if longest < shortest:
            raise CommandError(
                f"`--back-off {self.back_off}`: the first pause is longer than the last; turn them round"
            )
        well = _time("--back-off-reset", self.back_off_reset)
        return Policy(shortest, longest, well, int(failures), _time("--give-up", within))


def _time(option: str, text: str) -> float:
    """Seconds above zero. Raises CommandError."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise CommandError(f"`{option}`: {error}") from None
    if seconds <= 0:
        raise CommandError(f"`{option}`: a time above zero is needed; got `{text}`")
    return seconds


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The command line of `ridgeline run`, as it was given.

    `own`: the options of the application. `chosen`: the master that follows from all that says one. `spark`:
    the settings of Spark, those of configuration and of `cluster` included.
    """

    options: Options
    written: Written
    service: Service
    view: View
    resume: ResumeOptions
    cluster: Cluster
    logs: Logs
    profiling: Profiling
    supervision: Supervision
    own: Sequence[str] = ()
    chosen: str = ""
    spark: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, target: str, **given: Any) -> Self:
        """The settings of a command with these options, by name. Raises TypeError for unknown ones."""
        own: Sequence[str] = given.pop("own", ())
        known = {one.name for one in options_of(cls)}
        if unknown := set(given) - known:
            raise TypeError(f"no options of a run: {sorted(unknown)}; there are {sorted(known)}")
        made: Self = build(cls, {"target": target, **given})
        return replace(made, own=own)

    def beside(self, configured: Mapping[str, str], own: Sequence[str]) -> Self:
        """The same with the settings of Spark in configuration, and the application's own options.

        Raises CommandError for options that do not fit.
        """
        from ridgeline.engine.spark.submitted import chosen_master

        spark = {**configured, **self.options.conf}
        master = options.check_master(chosen_master(self.options.master, spark))
        if self.cluster.archives is not None:
            from ridgeline.engine.spark.archives import archive_settings

            spark |= archive_settings(self.cluster.archives, master, spark)
        self.logs.settings()
        self._check_supervision()
        _ = self.service.rotation
        self._check_resume()
        return replace(self, own=own, chosen=master, spark=spark)

    def supervised(self, link: Link) -> Self:
        """The settings of a driver that a supervisor has started.

        Once a driver has begun, the next one continues: nothing is rewound or forgotten again.
        """
        resume = ResumeOptions() if link.begun else self.resume
        given = self.options if link.checkpoint is None else replace(self.options, checkpoint=link.checkpoint)
        attributes = [*(self.written.attributes or ()), *link.attributes]
        written = replace(self.written, attributes=attributes) if link.attributes else self.written
        return replace(self, resume=resume, options=given, written=written)

    def _check_supervision(self) -> None:
        """Refuse options that do not fit together. Raises CommandError."""
        self.supervision.policy()
        if self.supervision.standby:
            self._check_standby()
        if not self.supervision.supervise:
            return
        if self.options.checkpoint is None and self.service.store is None:
            msg = "`--supervise` needs `--checkpoint`: each start would begin from nothing without one"
            raise CommandError(msg)
        if self.profiling.profile:
            msg = "`--profile` is about one run; leave it or `--supervise` out"
            raise CommandError(msg)
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            msg = (
                "`--supervise` cannot start a driver of `spark-submit` again; let the cluster do it (its own "
            )
            raise CommandError(msg + "`--supervise`, `spark.yarn.maxAppAttempts`), or start with `ridgeline`")

    def _check_standby(self) -> None:
        """Refuse options that do not fit a standby. Raises CommandError."""
        from ridgeline.api.support.files import is_local, local_path

        self.supervision.silent_seconds()
        if self.service.store is None:
            msg = "`--standby` needs `--store URL`, where it sees who has the name; give it, or leave "
            raise CommandError(msg + "`--standby` out")
        if is_local(self.service.store) and not Path(local_path(self.service.store)).is_dir():
            msg = (
                f"`--standby`: there is no folder `{self.service.store}`; see that it is mounted, or make it"
            )
            raise CommandError(msg)
        if given := self.given_resume():
            msg = f"`--{given}` changes what a start continues with, and a standby continues as the driver "
            raise CommandError(msg + "before it did; leave one of them out")
        if self.profiling.profile:
            msg = "`--profile` is about one run; leave it or `--standby` out"
            raise CommandError(msg)

    def given_resume(self) -> str:
        """The first option that was given about what a checkpoint keeps; "" for none."""
        given = (name for name, value in self.resume.items() if _is_given(value))
        return next(given, "").replace("_", "-")

    @property
    def master(self) -> str:
        """Where Spark runs."""
        return self.chosen or self.options.where

    def stored(self, application: str) -> Self:
        """The same with the checkpoint that it has in its store, where none was given.

        Raises CommandError for a name that no application of a store can have.
        """
        store, name = self.service.store, self.service.store_name or application
        if store is None:
            return self
        from ridgeline.service.store.entry import check_name
        from ridgeline.service.store.folder import EntryFolder

        try:
            check_name(name)
        except RidgelineError as error:
            raise CommandError(str(error)) from None
        if self.options.checkpoint is not None:
            return self
        place = EntryFolder(store).checkpoint(name)
        return replace(self, options=replace(self.options, checkpoint=place))

    def launched(self) -> Options:
        """The options of the run."""
        from ridgeline.engine.driver.slots.spark_slots import CERTIFICATE, KEY

        files = {CERTIFICATE: self.cluster.tls_cert, KEY: self.cluster.tls_key}
        tls = {name: file for name, file in files.items() if file is not None}
        spark = provided_settings(dict(self.spark))
        return replace(self.options, master=self.master, conf={**spark, **tls})

    def watched(self) -> ServiceOptions:
        """The options of what watches it."""
        return replace(self.service, port=None) if self.service.no_service else self.service

    def _check_resume(self) -> None:
        """Refuse options about what a checkpoint keeps where there is none. Raises CommandError."""
        given = self.given_resume()
        if given and self.options.checkpoint is None and self.service.store is None:
            raise CommandError(
                f"`--{given}` has no checkpoint to act on; give `--checkpoint` too, or leave it out"
            )

    def command(self, checkpoint: str) -> str:
        """The same command, continuing from a checkpoint.

        Secrets are masked: give them again. Without tokens, which belong into no log, and without the
        profile, which exists already. It is not rewound again. What was forgotten at the start is
        not forgotten again: that would be what changes of the running application have made since.
        """
        words = ["ridgeline", "run", self.written.target]
        if self.master != DEFAULT_MASTER:
            words += ["--master", self.master]
        for group in (self.written, self.options, self.view, self.cluster, self.logs, self.supervision):
            words += _words(group)
        words += _words(self.service)
        return shlex.join([*words, "--checkpoint", mask_text(checkpoint), *self._guarded_options()])

    def _guarded_options(self) -> list[str]:
        """The application's options; behind `--` if one of them has the name of the command's own."""
        clash = any(option.partition("=")[0] in RUN_OPTIONS or option.startswith("-D") for option in self.own)
        shown = _masked_options(self.own)
        return ["--", *shown] if clash else shown

    @property
    def ending(self) -> str:
        """How the run will end, in one line."""
        finished = "when all inputs have finished"
        windows = self.options.windows
        if windows is not None:
            finished = f"after {windows:,} window{'' if windows == 1 else 's'}, or {finished}"
        return f"ends {finished}; Ctrl-C ends it after the windows under way"


RUN_OPTIONS = (*option_names(RunSettings), "--help")
COMMAND_OPTIONS = (*RUN_OPTIONS, "--json")


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value not in ((), {})


def plain_words(group: Any) -> list[str]:
    """The options of a group that are not at their defaults, as words of a command, as they were given."""
    return _words(group, _as_given, _as_given)


def _as_given(text: str) -> str:
    return text


def _words(
    group: Any,
    shown: Callable[[str], str] = mask_text,
    shown_assignment: Callable[[str], str] | None = None,
) -> list[str]:
    """The options of a group that are not at their defaults, as words of a command, without secrets.

    `shown`, `shown_assignment`: what is shown of a value, and of `name=value`.
    """
    words: list[str] = []
    shown_assignment = shown_assignment or _masked
    given = dict(group) if isinstance(group, Mapping) else None
    for name, hint, default in fields_of(type(group) if given is None else ResumeOptions):
        flag, repeated = flag_of(name, hint)
        value = getattr(group, name) if given is None else given.get(name, default)
        if not flag or not repeated or value == default or (given is not None and not _is_given(value)):
            continue
        if isinstance(value, bool):
            words.append(flag)
        elif isinstance(value, Mapping):
            words += [word for key, one in value.items() for word in (flag, shown_assignment(f"{key}={one}"))]
        elif isinstance(value, (list, tuple)):
            words += [word for one in value for word in (flag, shown_assignment(one))]
        else:
            words += [flag, shown(str(value))]
    return words


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
