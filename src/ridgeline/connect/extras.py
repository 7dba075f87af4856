"""Libraries that `pip install 'ridgeline[...]'` brings: they are imported once an operator needs them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ridgeline.api.errors import RidgelineError


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
