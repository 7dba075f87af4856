"""Ridgeline: streaming applications in Python on Spark that know where their time goes."""

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgeline.api.public import *  # noqa: F403
    from ridgeline.streams import Outputs as Outputs
    from ridgeline.streams import Stream as Stream

logging.getLogger("ridgeline").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    """Import the API, or what stands above the operators, when it is first asked for."""
    if name in ("Outputs", "Stream"):
        return getattr(importlib.import_module("ridgeline.streams"), name)
    if name == "api":
        return importlib.import_module("ridgeline.api")
    public = importlib.import_module("ridgeline.api.public")
    return ["Outputs", "Stream", *public.__all__] if name == "__all__" else getattr(public, name)


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
