"""The options of `ridgeline run`, in groups."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import mask, mask_text
from ridgeline.api.support.option import Option
from ridgeline.api.support.secret_names import is_secret
from ridgeline.api.support.secrets.providers import names_provider, provided_settings
from ridgeline.cli import options
from ridgeline.cli.configuration import HelpAll, Written
from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import build, fields_of, flag_of, option_names, options_of
from ridgeline.engine.driver.checkpoint.resuming import ResumeOptions
from ridgeline.engine.driver.run.options import Options
from ridgeline.engine.process.log_channel import LogFormat, LogLevel, LogSettings
from ridgeline.engine.spark.submitted import DEFAULT_MASTER
from ridgeline.service.options import ServiceOptions

_CLUSTER, _LOG = "Cluster", "Log"


@dataclass(frozen=True, kw_only=True)
class View:
    """How much is printed.

    Args:
        quiet: Print nothing but errors and what operators print.
    """

    quiet: Annotated[bool, Option()] = False


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A file for the hosts of a cluster.

    Args:
        archives (FILE[#FOLDER]): A packed environment (`venv-pack`, `conda-pack`) for workers of a cluster:
            it is unpacked beside each executor, and its Python runs them.
    """

    archives: Annotated[str | None, Option(panel=_CLUSTER)] = None


@dataclass(frozen=True, kw_only=True)
class Logs:
    """Level, place and form of the log.

    Args:
        log_level: Write what is logged, from this level on, to standard error or to `--log-file`.
        log_file (PATH): Append what is logged to PATH, from `--log-level` on (default: INFO). Workers of a
            cluster write to their own standard error.
        log_format: `text`, or `json`: one JSON object a line.
    """

    log_level: Annotated[LogLevel | None, Option(panel=_LOG)] = None
    log_file: Annotated[str | None, Option(panel=_LOG)] = None
    log_format: Annotated[LogFormat, Option(panel=_LOG, setting=True)] = LogFormat.TEXT

    def settings(self) -> LogSettings | None:
        """The log; None for none. Raises CommandError for a format without a log."""
        if self.log_level is not None or self.log_file is not None:
            return LogSettings(self.log_level or LogLevel.INFO, self.log_format, self.log_file)
        if self.log_format is not LogFormat.TEXT:
            raise CommandError(
                f"`--log-format {self.log_format}` has no log to act on; give `--log-level` or `--log-file` "
                "too"
            )
        return None


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The command line of `ridgeline run`, as it was given.

    `own`: the options of the application. `chosen`: the master that follows from all that says one. `spark`:
    the settings of Spark, those of configuration and of `cluster` included.
    """

    options: Options
    written: Written
    service: ServiceOptions
    view: View
    resume: ResumeOptions
    cluster: Cluster
    logs: Logs
    help_all: HelpAll = False
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
        _ = self.service.rotation
        self._check_resume()
        return replace(self, own=own, chosen=master, spark=spark)

    def exposed(self) -> list[str]:
        """The names of secrets that the command line gives as such: all users of the host can read it."""
        spark = (f"{name}={value}" for name, value in self.options.conf.items())
        given = (text.partition("=") for text in (*(self.written.properties or ()), *spark))
        return [name for name, _, value in given if value and is_secret(name) and not names_provider(value)]

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
        from ridgeline.service.store.folder import EntryFolder, check_name

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
        spark = provided_settings(dict(self.spark))
        return replace(self.options, master=self.master, conf=spark)

    def _check_resume(self) -> None:
        """Refuse options about what a checkpoint keeps where there is none. Raises CommandError."""
        given = self.given_resume()
        if given and self.options.checkpoint is None and self.service.store is None:
            raise CommandError(
                f"`--{given}` has no checkpoint to act on; give `--checkpoint` too, or leave it out"
            )

    def command(self, checkpoint: str) -> str:
        """The same command, continuing from a checkpoint.

        Secrets are masked: give them again. Without tokens, which belong into no log. It is not rewound.
        What was forgotten at the start is not forgotten again: that would be what changes of the running
        application have made since.
        """
        words = ["ridgeline", "run", self.written.target]
        if self.master != DEFAULT_MASTER:
            words += ["--master", self.master]
        for group in (self.written, self.options, self.view, self.cluster, self.logs):
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


def _words(group: Any) -> list[str]:
    """The options of a group that are not at their defaults, as words of a command, without secrets."""
    words: list[str] = []
    for name, hint, default in fields_of(type(group)):
        flag, repeated = flag_of(name, hint)
        value = getattr(group, name)
        if not flag or not repeated or value == default:
            continue
        if isinstance(value, bool):
            words.append(flag)
        elif isinstance(value, Mapping):
            words += [word for key, one in value.items() for word in (flag, _masked(f"{key}={one}"))]
        elif isinstance(value, (list, tuple)):
            words += [word for one in value for word in (flag, _masked(one))]
        else:
            words += [flag, mask_text(str(value))]
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
