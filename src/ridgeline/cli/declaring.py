"""Arguments and options of commands, as they are declared in annotations."""

from __future__ import annotations

from typing import Any

import typer


def option(help: str, *flags: str, **more: Any) -> Any:  # noqa: A002
    """An option. `flags`: its names, where they are not the parameter's. `more`: as of `typer.Option`."""
    return typer.Option(*flags, help=help, **more)


def argument(help: str, metavar: str, **more: Any) -> Any:  # noqa: A002
    """An argument. `more`: as of `typer.Argument`."""
    return typer.Argument(help=help, metavar=metavar, **more)
