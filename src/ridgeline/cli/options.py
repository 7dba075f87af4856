"""Options that typer does not know: assignments (`-D`, `--attribute`, `--conf`), application options."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pydantic

from ridgeline.api.errors import did_you_mean
from ridgeline.api.support.masking import mask, mask_text
from ridgeline.cli.errors import CommandError
from ridgeline.cli.settings import RUN_OPTIONS
from ridgeline.engine.process.log_channel import LogFormat, LogLevel, LogSettings

COMMAND_OPTIONS = (*RUN_OPTIONS, "--json")
_OF_COMMAND = "is not an option of `ridgeline run` either"


def assignments(
    option: str, texts: Sequence[str], form: str, example: str, *, dotted: bool = False
) -> dict[str, str]:
    """`name=value` texts as a mapping; of a name that is given twice the last value counts.

    Raises CommandError naming the form.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        parts = name.split(".", 1)
        both = len(parts) == 2 and all(parts)  # noqa: PLR2004  operator and property
        if not equals or not name or (dotted and not both):
            msg = f"`{option}` takes `{form}`; got `{mask_text(text)}`; for example `{option} {example}`"
            raise CommandError(msg)
        found[name] = value
    return found


def properties(texts: Sequence[str]) -> dict[str, str]:
    """The values of `-D`. Raises CommandError."""
    return assignments("-D", texts, "operator.property=value", "payments.count=1000", dotted=True)


def attributes(texts: Sequence[str]) -> dict[str, str]:
    """The values of `--attribute`; without an operator's name they are the application's.

    Raises CommandError.
    """
    return assignments("--attribute", texts, "operator.name=value", "balances.partitions=3")


def settings(texts: Sequence[str]) -> dict[str, str]:
    """The values of `--conf`. Raises CommandError."""
    return assignments("--conf", texts, "key=value", "spark.executor.memory=4g")


def check_master(master: str) -> str:
    """Refuse what cannot be a Spark master before Spark is started. Raises CommandError."""
    forms = "give `local[4]`, `local[*]`, `spark://host:7077`, `yarn` or `k8s://https://host:6443`"
    if master.startswith("sc://"):
        msg = (
            f"`--master {master}` is Spark Connect, which is not supported: windows are RDD jobs, which "
            f"need a classic driver; {forms}"
        )
        raise CommandError(msg)
    if "://" not in master and master != "yarn" and not master.startswith("local"):
        msg = f"`--master {master}` is no Spark master; {forms}"
        raise CommandError(msg)
    return master


def nothing_given(target: str, given: Sequence[str]) -> None:
    """Refuse options beside an application that runs. Raises CommandError."""
    if given:
        msg = f"`{target}` runs: what it was given is known; leave `{given[0]}` out"
        raise CommandError(msg)


def check_reset(reset: bool, checkpoint: str | None, option: str = "--reset-properties") -> None:
    """An option about what a checkpoint keeps. Raises CommandError without a checkpoint."""
    if reset and checkpoint is None:
        msg = f"`{option}` has no checkpoint to act on; give `--checkpoint` too, or leave it out"
        raise CommandError(msg)


def renamed(texts: Sequence[str]) -> dict[str, str]:
    """The values of `--rename`: new names of operators by old ones. Raises CommandError."""
    found = assignments("--rename", texts, "OLD=NEW", "balances=accounts")
    for old, new in found.items():
        if not new:
            msg = f"`--rename` takes `OLD=NEW`; got `{old}=`; for example `--rename balances=accounts`"
            raise CommandError(msg)
    return found


def log_settings(level: LogLevel | None, file: str | None, form: LogFormat) -> LogSettings | None:
    """What `--log-level`, `--log-file` and `--log-format` ask for; None for no log.

    Raises CommandError for a format without a log.
    """
    if level is None and file is None:
        if form is not LogFormat.TEXT:
            msg = f"`--log-format {form}` has no log to act on; give `--log-level` or `--log-file` too"
            raise CommandError(msg)
        return None
    return LogSettings(level or LogLevel.INFO, form, file)


# Options of an application ----------------------------------------------------------------------------------


def application_arguments(
    target: str, function: Callable[..., object], texts: Sequence[str]
) -> dict[str, Any]:
    """Keyword arguments for the function, by its annotations.

    From `--name value`, `--name=value`, `--flag` and `--no-flag`.

    Raises CommandError for options that the function does not take, values that do not fit and required ones
    that are missing.
    """
    parameters = _parameters(function)
    found: dict[str, Any] = {}
    rest = list(texts)
    while rest:
        text = rest.pop(0)
        if not text.startswith("--") or text == "--":
            msg = (
                f"`{text}` belongs to no option; options of the application are `--name value`; "
                f"{_takes(target, parameters)}"
            )
            raise CommandError(msg)
        option, equals, value = text.partition("=")
        name, negated = _name(option, parameters)
        if name not in parameters:
            raise CommandError(_unknown(option, target, parameters))
        if name in found:
            msg = f"`{option}` is given twice; give it once"
            raise CommandError(msg)
        kind = parameters[name][0]
        if kind is bool and not equals:
            found[name] = not negated
            continue
        if not equals:
            if not rest or (rest[0].startswith("--") and rest[0] != "--"):
                msg = f"`{option}` needs a value: `{_shown(name, parameters[name])}`"
                raise CommandError(msg)
            value = rest.pop(0)
        found[name] = _convert(option, kind, value)
    missing = [
        name
        for name, (_, default) in parameters.items()
        if default is inspect.Parameter.empty and name not in found
    ]
    if missing:
        needed = ", ".join(f"`{_shown(name, parameters[name])}`" for name in missing)
        msg = f"`{target}` needs {needed}; give {'it' if len(missing) == 1 else 'them'} after APP"
        raise CommandError(msg)
    return found


Parameters = Mapping[str, tuple[Any, Any]]
"""Type and default of a function's parameters by name."""


def _parameters(function: Callable[..., object]) -> Parameters:
    """The function's parameters that options can set; a default stands in for a missing annotation."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        hints = {}
    skipped = (
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
        inspect.Parameter.POSITIONAL_ONLY,
    )
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in skipped:
            default = parameter.default
            guess = str if default is None or default is inspect.Parameter.empty else type(default)
            found[name] = (hints.get(name, guess), default)
    return found


def _name(option: str, parameters: Parameters) -> tuple[str, bool]:
    """The parameter that an option means, and whether it is `--no-...`."""
    name = option.removeprefix("--").replace("-", "_")
    if (
        name not in parameters
        and name.startswith("no_")
        and parameters.get(name.removeprefix("no_"), (None, None))[0] is bool
    ):
        return name.removeprefix("no_"), True
    return name, False


def _convert(option: str, kind: Any, text: str) -> object:
    """The text as the annotated type; as it is where pydantic does not know the type."""
    try:
        return pydantic.TypeAdapter(kind).validate_python(text)
    except pydantic.errors.PydanticUserError:
        return text
    except pydantic.ValidationError as error:
        problem = error.errors()[0]["msg"]
        msg = f"`{option}` does not take `{mask(option, text)}`: {problem[0].lower()}{problem[1:]}"
        raise CommandError(msg) from None


def _unknown(option: str, target: str, parameters: Parameters) -> str:
    known = [f"--{name.replace('_', '-')}" for name in parameters]
    hint = did_you_mean(option, [*known, *COMMAND_OPTIONS])
    if not hint.startswith("did you mean"):
        return f"`{target}` takes no option `{option}`, which {_OF_COMMAND}; {_takes(target, parameters)}"
    return f"`{target}` takes no option `{option}`; {hint} {_takes(target, parameters)}"


def _takes(target: str, parameters: Parameters) -> str:
    if not parameters:
        return f"`{target}` takes no options"
    return f"`{target}` takes " + ", ".join(
        f"`{_shown(name, parameter)}`" for name, parameter in parameters.items()
    )


def _shown(name: str, parameter: tuple[object, object]) -> str:
    kind, _ = parameter
    option = f"--{name.replace('_', '-')}"
    return option if kind is bool else f"{option} {name.upper()}"
