"""Configuration of a command: its layers, the options of a run in them, and the values that result."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ridgeline.api.errors import Fault
from ridgeline.cli import options
from ridgeline.cli.grouping import argument, option, options_of
from ridgeline.engine.driver.checkpoint.resuming import ResumeOptions

if TYPE_CHECKING:
    from ridgeline.api.application import Application
    from ridgeline.plan.edits import Edit
    from ridgeline.plan.execution import Plan
    from ridgeline.settings.layers import Layer
    from ridgeline.settings.resolving import Resolved, RunOptions


OWN_OPTIONS = {"ignore_unknown_options": True, "allow_extra_args": True}
"""Settings of a command whose other options belong to the application."""
OPTIONS_OF_APP = (
    "Options that are none of these belong to the application: they become arguments of its function "
    "`application(...)`."
)
_PANEL = "Packages and configuration"


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.meta[_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool, option("Show all options and exit.", "--help-all", callback=_show_all, is_eager=True)
]


@dataclass(frozen=True, kw_only=True)
class Written:
    """An application as it is written, and what the command line sets of it.

    `ConfiguredCommand` reads `conf_file` and `no_config`.

    Args:
        target (APP): A file (its one Application, or its function `application()`), `file.py:name`, or
            `module:attribute`. Also a specification (`.json`, `.yaml`, `.properties`), or a package
            (`.whl`, `.zip`; of several applications `shop.whl:name`).
        properties (OPERATOR.PROPERTY=VALUE): Set a property of an operator: `-D payments.count=1000`; of a
            dictionary one entry: `-D source.options.subscribe=trades`.
        attributes (OPERATOR.NAME=VALUE): Set an attribute of an operator, `--attribute
            book.partitions=3`, or of the application, `--attribute window=1s`.
        conf_file (FILE): Read a configuration (`.yaml`, `.json`, `.properties`); of several the
            later one counts more.
        conf_set (NAME): A configuration set of a package.
        no_config: Leave out the configuration of site and user.
    """

    target: Annotated[str, argument()]
    properties: Annotated[list[str] | None, option(called="-D")] = None
    attributes: Annotated[list[str] | None, option(called="--attribute")] = None
    conf_file: Annotated[list[str] | None, option()] = None
    conf_set: Annotated[str | None, option(rich_help_panel=_PANEL)] = None
    no_config: Annotated[bool, option(rich_help_panel=_PANEL)] = False

    @property
    def given(self) -> Sequence[str]:
        """Values that an application that runs already knows."""
        several = (*(self.properties or ()), *(self.attributes or ()), *(self.conf_file or ()))
        return several if self.conf_set is None else (*several, self.conf_set)


_KEY, _ALL = "ridgeline.configuration", "ridgeline.help_all"
_NOT_CONFIGURED = {"help_all", *(one.name for group in (Written, ResumeOptions) for one in options_of(group))}
"""Options of one command: no configuration has them."""


@dataclass(slots=True)
class Configuration:
    """The layers that a command reads, the options of a run in them, and what is wrong with both."""

    layers: Sequence[Layer]
    run: RunOptions
    faults: list[Fault] = field(default_factory=list)


class ConfiguredCommand(TyperCommand):
    """A command that reads configuration: options that are not given may come from it.

    Nothing is printed or raised here: faults are shown with those of the application.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Where there is `--help-all`, it alone shows the options that stand under a title of their own."""
        shown: list[Any] = [one for one in self.params if not getattr(one, "hidden", False)]
        brief = any(one.name == "help_all" for one in shown) and not ctx.meta.get(_ALL)
        more = [one for one in shown if brief and getattr(one, "rich_help_panel", None)]
        for one in more:
            one.hidden = True
        super().format_help(ctx, formatter)
        for one in more:
            one.hidden = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the configuration before the options."""
        from ridgeline.settings.files import outer_layers
        from ridgeline.settings.resolving import run_options

        given, _, _ = self.make_parser(ctx).parse_args(list(args))
        faults: list[Fault] = []
        files = given.get("conf_file") or ()
        automatic = not given.get("no_config")
        layers = outer_layers(os.environ, files, automatic=automatic, faults=faults)
        parameters = _run_parameters(ctx)
        found = run_options(layers, parameters, os.environ, faults)
        for name, value in list(found.options.items()):
            try:
                parameters[name].process_value(ctx, value)
            except typer.BadParameter as error:
                setting = found.settings[name][0]
                what = f"`run.{name}` does not fit: {error.message.rstrip('.')}"
                faults.append(setting.fault(what, f"give what `--{name.replace('_', '-')}` takes"))
                del found.options[name]
        ctx.default_map = dict(found.options)
        ctx.meta[_KEY] = Configuration(layers, found, faults)
        return super().parse_args(ctx, args)


CONFIGURED: Mapping[str, Any] = {
    "cls": ConfiguredCommand,
    "context_settings": OWN_OPTIONS,
    "epilog": OPTIONS_OF_APP,
}
"""Settings of a command that reads configuration."""


@dataclass(frozen=True, slots=True)
class Configured:
    """An application, and the layers that configure it: `below` those of its checkpoint, `above` them."""

    app: Application
    below: Sequence[Layer]
    above: Sequence[Layer]
    faults: Sequence[Fault]

    def resolve(self, kept: Mapping[str, object] = MappingProxyType({})) -> Resolved:
        """Resolve all layers, with the properties that a checkpoint keeps, as `-D` gives them."""
        from ridgeline.settings.layers import Layer
        from ridgeline.settings.resolving import resolve

        values = {f"operator.{key}": value for key, value in kept.items()}
        checkpoint = Layer("checkpoint", "checkpoint", values, strict=False, only="property")
        resolved = resolve(self.app, [*self.below, checkpoint, *self.above])
        resolved.faults[:0] = self.faults
        return resolved

    def plan(
        self,
        kept: Mapping[str, object] = MappingProxyType({}),
        kept_edits: Sequence[Edit] = (),
        edits: Sequence[Edit] = (),
    ) -> Plan:
        """The plan of the application, configured. Raises ValidationError with all faults."""
        from ridgeline.plan.planner import plan_application

        resolved = self.resolve(kept)
        with resolved.reporting():
            return plan_application(
                self.app, resolved.properties, resolved.attributes, edits=edits, kept=kept_edits
            )


def load_configured(context: typer.Context, written: Written) -> Configured:
    """The application that APP names, with all layers, those of the command line above others.

    Raises what `load_application` raises.
    """
    from ridgeline.cli.load import load_application
    from ridgeline.cli.packages import layers_of
    from ridgeline.settings.files import command_layers

    above = command_layers(
        options.properties(written.properties or ()), options.attributes(written.attributes or ())
    )
    read = configuration(context)
    app = load_application(written.target, context.args)
    packaged = layers_of(written.target, written.conf_set)
    return Configured(app, [*packaged, *read.layers], above, read.faults)


def configuration(context: typer.Context) -> Configuration:
    """The configuration that a `ConfiguredCommand` has read."""
    found: Configuration = context.meta[_KEY]
    return found


def _run_parameters(context: typer.Context) -> dict[str, Any]:
    """The options of `ridgeline run` that may be configured, by name."""
    root: Any = context.find_root().command
    return {
        parameter.name: parameter
        for parameter in root.get_command(context, "run").params
        if parameter.name not in _NOT_CONFIGURED
    }
