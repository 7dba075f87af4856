"""Arguments and options of all commands that take an application."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

OWN_OPTIONS = {"ignore_unknown_options": True, "allow_extra_args": True}
"""Settings of a command whose other options belong to the application."""
OPTIONS_OF_APP = (
    "Options that are not listed here belong to the application: they become arguments of its function "
    "`application(...)`."
)
_PANEL = "Packages and configuration"

App = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="A file (its one Application, or its function `application()`), `file.py:name`, "
        "`module:attribute`, a specification (`.json`, `.yaml`, `.toml`, `.properties`), or a package "
        "(`.whl`, `.zip`).",
        show_default=False,
    ),
]
AppName = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="NAME",
        help="Which application of a package.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
ConfSet = Annotated[
    str | None,
    typer.Option(
        "--conf-set",
        metavar="NAME",
        help="A configuration set of a package.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "-D",
        metavar="OPERATOR.PROPERTY=VALUE",
        help="Set a property of an operator: `-D payments.count=1000`; of a dictionary one entry: `-D "
        "source.options.subscribe=trades`.",
        show_default=False,
    ),
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        metavar="OPERATOR.NAME=VALUE",
        help="Set an attribute of an operator, `--attribute book.partitions=3`, or of the application, "
        "`--attribute window=1s`.",
        show_default=False,
    ),
]
ConfFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--conf-file",
        metavar="FILE",
        help="Read a configuration (`.yaml`, `.toml`, `.json`, `.properties`); of several the later one "
        "counts more.",
        show_default=False,
    ),
]
NoConfig = Annotated[
    bool,
    typer.Option("--no-config", help="Leave out the configuration of site and user.", rich_help_panel=_PANEL),
]


@dataclass(frozen=True, kw_only=True)
class Written:
    """An application as it is written, and what the command line sets of it.

    `ConfiguredCommand` reads `conf_file` and `no_config`.
    """

    target: App
    properties: Properties = None
    attributes: Attributes = None
    conf_file: ConfFiles = None
    app_name: AppName = None
    conf_set: ConfSet = None
    no_config: NoConfig = False

    @property
    def given(self) -> Sequence[str]:
        """Values that an application that runs already knows."""
        several = (*(self.properties or ()), *(self.attributes or ()), *(self.conf_file or ()))
        return several if self.conf_set is None else (*several, self.conf_set)
