"""Secrets that properties name and do not hold: `env:NAME`, `file:PATH`, or a function."""

from __future__ import annotations

from collections.abc import Callable

import pydantic

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
