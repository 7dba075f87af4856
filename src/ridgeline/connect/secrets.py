"""Secrets that properties name and do not hold: `env:NAME`, `file:PATH`, or a function."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pydantic

from ridgeline.api.errors import RidgelineError

Secret = str | pydantic.SecretStr | Callable[[], str]
"""A secret, where it is (`env:NAME`, `file:PATH`), or a function that returns it."""


def secret_value(secret: Secret, what: str) -> str:
    """Return a secret's value, read where it is used and never kept in a plan.

    `env:NAME` is the environment variable of this process, `file:PATH` a file's text without the newline at
    its end. Other texts are the secret itself. `what`: its property, for error texts.
    Raises RidgelineError if the variable or the file is missing; its text holds no secret.

    >>> os.environ["SALES_PASSWORD"] = "x"
    >>> secret_value("env:SALES_PASSWORD", "password")
    'x'
    """
    text = secret.get_secret_value() if isinstance(secret, pydantic.SecretStr) else secret
    if not isinstance(text, str):
        return text()
    kind, colon, name = text.partition(":")
    if colon and kind == "env":
        if name not in os.environ:
            msg = f"`{what}`: environment variable `{name}` is not set; set it where this process starts"
            raise RidgelineError(msg)
        return os.environ[name]
    if colon and kind == "file":
        try:
            return Path(name).read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            msg = (
                f"`{what}`: file `{name}` cannot be read ({type(error).__name__}); check its path and rights"
            )
            raise RidgelineError(msg) from None
    return text
