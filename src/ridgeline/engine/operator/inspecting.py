"""What looks at an operator after its callbacks, in runners that have the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ridgeline.engine.operator.runtime import OperatorRuntime


class Inspection(Protocol):
    """Looks at an operator after its callbacks."""

    def check(self) -> None:
        """Raise RidgelineError for what a crash would lose or a replay would not repeat."""

    def begin_again(self) -> None:
        """The operator has been torn down and set up again."""


Inspect = Callable[["OperatorRuntime"], Inspection]
