"""Libraries that `pip install 'ridgeline[...]'` brings: they are imported once an operator needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ridgeline.api.errors import RidgelineError


def library(module: str, what: str, extra: str) -> Any:
    """A module of a library. Raises RidgelineError with `what` and the remedy if it cannot be imported."""
    try:
        return import_module(module)
    except ImportError as error:
        raise RidgelineError(f"{what} ({error}); install it: pip install 'ridgeline[{extra}]'") from error
