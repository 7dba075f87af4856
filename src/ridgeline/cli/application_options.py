"""Options of an application: they become arguments of its function `application(...)`."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pydantic

from ridgeline.api.errors import did_you_mean
from ridgeline.api.support.masking import mask
from ridgeline.cli.errors import CommandError
from ridgeline.cli.settings import COMMAND_OPTIONS

_OF_COMMAND = "is not an option of `ridgeline run` either"


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
            raise CommandError(
                f"`{text}` belongs to no option; options of the application are `--name value`; "
                f"{_takes(target, parameters)}"
            )
        option, equals, value = text.partition("=")
        name, negated = _name(option, parameters)
        if name not in parameters:
            raise CommandError(_unknown(option, target, parameters))
        if name in found:
            raise CommandError(f"`{option}` is given twice; give it once")
        kind = parameters[name][0]
        if kind is bool and not equals:
            found[name] = not negated
            continue
        if not equals:
            if not rest or (rest[0].startswith("--") and rest[0] != "--"):
                raise CommandError(f"`{option}` needs a value: `{_shown(name, parameters[name])}`")
            value = rest.pop(0)
        found[name] = _convert(option, kind, value)
    missing = [
        name
        for name, (_, default) in parameters.items()
        if default is inspect.Parameter.empty and name not in found
    ]
    if missing:
        needed = ", ".join(f"`{_shown(name, parameters[name])}`" for name in missing)
        raise CommandError(
            f"`{target}` needs {needed}; give {'it' if len(missing) == 1 else 'them'} after APP"
        )
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
        raise CommandError(
            f"`{option}` does not take `{mask(option, text)}`: {problem[0].lower()}{problem[1:]}"
        ) from None


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
