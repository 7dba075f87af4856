"""Control tuples as operators hand them on."""

from __future__ import annotations

from typing import NamedTuple


class Control(NamedTuple):
    """A control tuple. `number`: of those that the `origin` has emitted in the window.

    `origin`: the operator's physical id; of one that came through a queue, a number below 0. `at_end`:
    delivered before `end_window`, else before the tuples of the window. `value`: pickled.

    Example:
        >>> import pickle
        >>> from ridgeline.api.support.control import Control
        >>> Control(3, 0, at_end=True, value=pickle.dumps("flush")).at_end
        True
    """

    origin: int
    number: int
    at_end: bool
    value: bytes
