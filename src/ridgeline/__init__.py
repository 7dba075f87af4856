"""Ridgeline: streaming applications in Python on Spark that know where their time goes."""

import importlib
import logging
from typing import TYPE_CHECKING, Any

from ridgeline import api
from ridgeline.api import *  # noqa: F403

if TYPE_CHECKING:
    from ridgeline.streams import Outputs, Stream

__all__ = ["Outputs", "Stream"]
__all__ += api.__all__

logging.getLogger("ridgeline").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    """Import what stands above the operators when it is first asked for."""
    if name in ("Outputs", "Stream"):
        return getattr(importlib.import_module("ridgeline.streams"), name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
