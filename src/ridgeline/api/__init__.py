"""The public API for authors of operators and applications.

It is imported when one of its names is asked for. Who only needs a part, such as a command that lists
applications, does not wait for numpy and Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgeline.api.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        return getattr(import_module("ridgeline.api.public"), name)
