"""Modules that are imported once an operator needs them: libraries of extras, and the user's own."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ridgeline.api.errors import RidgelineError, did_you_mean


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
