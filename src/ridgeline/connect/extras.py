"""What properties of connectors name: libraries of extras, the user's own modules, and secrets."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pydantic

from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.support.secrets.providers import provided, text_of

__all__ = ["Secret", "secret_value"]

Secret = str | pydantic.SecretStr | Callable[[], str]
"""A secret, where it is (`env:NAME`, `file:PATH`), or a function that returns it."""


def secret_value(secret: Secret, what: str) -> str:
    """Return a secret's value, read where it is used and never kept in a plan.

    `env:NAME` is the environment variable of this process, `file:PATH` a file's text without the newline at
    its end. Other texts are the secret itself. `what`: its property, for error texts. Raises RidgelineError
    if it cannot be had; its text holds no secret.

    >>> import os
    >>> os.environ["SALES_PASSWORD"] = "x"
    >>> secret_value("env:SALES_PASSWORD", "password")
    'x'
    """
    text = text_of(secret) if isinstance(secret, pydantic.SecretStr) else secret
    return provided(text, what) if isinstance(text, str) else text()


def library(module: str, what: str, extra: str) -> Any:
    """A module of a library. Raises RidgelineError with `what` and the remedy if it cannot be imported."""
    try:
        return import_module(module)
    except ImportError as error:
        raise RidgelineError(f"{what} ({error}); install it: pip install 'ridgeline[{extra}]'") from error


def library_faults(name: str, value: object, load: Callable[[], object]) -> list[tuple[str, object, str]]:
    """The fault of a property where a library is not installed. `load`: raises RidgelineError then."""
    try:
        load()
    except RidgelineError as error:
        return [(name, value, str(error))]
    return []


def imported(path: str) -> Any:
    """The object that `module:name` names. Raises RidgelineError."""
    module, _, name = path.partition(":")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        raise RidgelineError(
            f"`{path}` needs the module `{error.name}`, which is not there; put it on PYTHONPATH"
        ) from None
    except Exception as error:
        raise RidgelineError(
            f"the module of `{path}` fails when it is imported: {type(error).__name__}: {error}; fix it"
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            names = [known for known in vars(found) if not known.startswith("_")]
            raise RidgelineError(f"`{module}` has no `{part}`; {did_you_mean(part, names)}")
        found = getattr(found, part)
    return found
