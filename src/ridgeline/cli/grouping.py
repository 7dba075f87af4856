"""Options that several commands share, or that belong together: a group stands for its fields."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

from ridgeline.api.support.documented import Described, documented
from ridgeline.api.support.option import Option
from ridgeline.cli import completing
from ridgeline.cli.errors import reporting_errors
from ridgeline.cli.options import assignments


def option(help: str = "", *flags: str, called: str = "", **more: Any) -> Any:  # noqa: A002
    """An option. `more`: as of `typer.Option`. Without a help the docstring has it, see `command`.

    `flags`, or the words of `called`: its names, where it is not called as the parameter.
    """
    return typer.Option(*(flags or called.split()), help=help, **more)


def argument(help: str = "", metavar: str | None = None, **more: Any) -> Any:  # noqa: A002
    """An argument, completed as its metavar says. `more`: as of `typer.Argument`. Help as of `option`."""
    return typer.Argument(help=help, metavar=metavar, **more)


def command(function: Callable[..., None], *, without: Collection[str] = ()) -> Callable[..., None]:
    """A function that typer can make a command of: `function`, with errors reported.

    Parameters that can be given by name alone are options, others are arguments. Their help is in the
    docstring: `limit (N): How many.`, with `N` as metavar.

    A parameter whose annotation is a group, a dataclass or a typed dictionary, becomes its fields: arguments
    in its place, options at the end. The function gets one object with their values. `without`: fields that
    are no options here, so that they have their defaults.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    text, said = documented(function)
    here: list[inspect.Parameter] = []
    last: list[inspect.Parameter] = []
    own: list[str] = []
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kind = hints[name]
        if not _is_group(kind):
            own.append(name)
            is_argument = parameter.kind is not inspect.Parameter.KEYWORD_ONLY
            if kind is not typer.Context:
                kind = _filled(
                    name, kind, parameter.default, said.get(name), argument() if is_argument else option()
                )
            here.append(_keyword(name, kind, parameter.default))
            continue
        groups[name] = kind
        for one in options_of(kind):
            if one.name not in without:
                (here if _info(one.annotation, ArgumentInfo) else last).append(one)

    def run(**given: Any) -> None:
        with reporting_errors():
            grouped = {name: build(kind, given) for name, kind in groups.items()}
            function(**{name: given[name] for name in own}, **grouped)

    parameters = [*here, *last]
    made: Any = run
    made.__name__, made.__doc__ = function.__name__, text
    made.__signature__ = inspect.Signature(parameters)
    made.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _filled(name: str, hint: Any, default: Any, said: Described | None, info: Any) -> Any:
    """An annotation with how it is shown: what it has itself, else `info`, filled by a docstring."""
    info = copy(_info(hint, ParameterInfo) or info)
    if not info.help:
        said = said or Described()
        info.help, info.metavar = said.text, said.mark or None
        if isinstance(info, OptionInfo):
            if not _declared(info):  # without it a flag would have its opposite, too
                info.param_decls = (_dashed(name),)
        elif info.metavar is None:
            info.metavar = name.upper() if default is inspect.Parameter.empty else f"[{name.upper()}]"
    if isinstance(info, ArgumentInfo) and info.autocompletion is None:
        info.autocompletion = completing.of(info.metavar)
    return Annotated[_type(hint), info]


def build(group: Any, given: Mapping[str, Any]) -> Any:
    """An object of a group from the values of options; those not given have their defaults.

    Raises CommandError for an entry of a mapping that is no `NAME=VALUE`.
    """
    values = {}
    for name, hint, _ in fields_of(group):
        if _is_group(hint):
            values[name] = build(hint, given)
        elif name in given:
            values[name] = _value(name, hint, given[name])
    return group(**values)


def options_of(group: Any) -> Iterator[inspect.Parameter]:
    """The arguments and options of a group and of groups in it, as parameters that typer understands."""
    for name, hint, default in fields_of(group):
        if _is_group(hint):
            yield from options_of(hint)
        elif _info(hint, ParameterInfo):
            yield _keyword(name, hint, default)
        elif option := _info(hint, Option):
            yield _shown(name, hint, option, default)


def option_names(group: Any) -> list[str]:
    """The long names of all options of a group: `--master`."""
    infos = [(one.name, _info(one.annotation, OptionInfo)) for one in options_of(group)]
    return [name for field, info in infos if info and (name := _flag(field, info)).startswith("--")]


def fields_of(group: Any) -> Iterator[tuple[str, Any, Any]]:
    """Name, annotation and default of each field, those of a class before those of its bases.

    Annotations have what docstrings say of the fields.
    """
    hints = typing.get_type_hints(group, include_extras=True)
    if typing.is_typeddict(group):
        yield from ((name, hint, False if _type(hint) is bool else None) for name, hint in hints.items())
        return
    fields: Mapping[str, Any] = {field.name: field for field in dataclasses.fields(group)}
    names = [name for kind in group.__mro__ for name in vars(kind).get("__annotations__", ())]
    said = {name: one for kind in reversed(group.__mro__) for name, one in documented(kind)[1].items()}
    for name in dict.fromkeys(names):
        default = fields[name].default
        if default is dataclasses.MISSING:
            made = fields[name].default_factory
            default = inspect.Parameter.empty if made is dataclasses.MISSING else made()
        yield name, _documented(name, hints[name], default, said.get(name)), default


def _documented(name: str, hint: Any, default: Any, said: Described | None) -> Any:
    """The annotation of a field, with what docstrings say of it; as it is if it is no option."""
    if shown := _info(hint, Option):
        if shown.help or said is None:
            return hint
        return Annotated[_type(hint), replace(shown, help=said.text, metavar=said.mark or None)]
    return _filled(name, hint, default, said, None) if _info(hint, ParameterInfo) else hint


def flag_of(name: str, hint: Any) -> tuple[str, bool]:
    """The option of a field, `--master`, and whether the command that continues the run has it.

    "" for a field that is no option.
    """
    if option := _info(hint, Option):
        return _long(name, option), option.repeated
    info = _info(hint, OptionInfo)
    return (_flag(name, info), True) if info else ("", False)


def _is_group(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)


def _keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _info(hint: Any, kind: type) -> Any:
    """The metadata of that kind in an annotation, or None."""
    return next((one for one in getattr(hint, "__metadata__", ()) if isinstance(one, kind)), None)


def _type(hint: Any) -> Any:
    return getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint


def _long(name: str, option: Option) -> str:
    return option.name or _dashed(name)


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _flag(name: str, info: OptionInfo) -> str:
    return (_declared(info) or [_dashed(name)])[0]


def _declared(info: OptionInfo) -> list[str]:
    """The names that an option was given."""
    return [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str)]


def _shown(name: str, hint: Any, option: Option, default: Any) -> inspect.Parameter:
    """An option as typer takes it: collections and mappings are lists of texts."""
    several = _several(hint) is not None
    info = typer.Option(
        _long(name, option),
        metavar=option.metavar,
        help=option.help,
        min=option.minimum,
        max=option.maximum,
        envvar=option.variable,
        case_sensitive=False,
        show_default=not several and default not in {None, ""},
        rich_help_panel=option.panel or None,
        hidden=option.setting,
    )
    kind: Any = list[str] | None if several else _type(hint)
    return _keyword(name, Annotated[kind, info], None if several else default)


def _several(hint: Any) -> Any:
    """The collection or mapping that a field takes; None for one value."""
    kinds = [_type(hint), *typing.get_args(_type(hint))]
    origins = [origin for kind in kinds if isinstance(origin := typing.get_origin(kind), type)]
    return next((one for one in origins if issubclass(one, Collection)), None)


def _value(name: str, hint: Any, given: Any) -> Any:
    """A field's value by that of its option."""
    option, several = _info(hint, Option), _several(hint)
    if option is None or several is None:
        return given
    if issubclass(several, Mapping):
        return assignments(
            _long(name, option), given or (), option.form, option.example, filled=option.filled
        )
    return tuple(given or ())
