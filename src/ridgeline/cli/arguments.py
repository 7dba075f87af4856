"""Arguments and options of all commands that take an application."""

from __future__ import annotations

from typing import Annotated

import typer

OWN_OPTIONS = {"ignore_unknown_options": True, "allow_extra_args": True}
"""Settings of a command whose other options belong to the application."""
OPTIONS_OF_APP = (
    "Options that are not listed here belong to the application: they become arguments of its function "
    "`application(...)`."
)

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
    typer.Option("--app", metavar="NAME", help="Which application of a package.", show_default=False),
]
ConfSet = Annotated[
    str | None,
    typer.Option("--conf-set", metavar="NAME", help="A configuration set of a package.", show_default=False),
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
