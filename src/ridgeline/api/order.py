"""What an input port demands of the order of its tuples."""

from __future__ import annotations

import enum
from typing import Literal, TypeAlias


class Order(enum.StrEnum):
    """The order within a key that an input port needs: `InputPort(Price, key="symbol", order=Order.KEPT)`.

    KEPT: a key's tuples come in the order in which the source emitted them. A plan that may lose this order
    is refused. BY_TIME: the tuples of each streaming window come in the order of their times, whatever way
    they took. Tuples with the same time keep the order in which they came.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import InputPort, Operator, Order
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> class LastPrice(Operator):
        ...     prices = InputPort(Price, key="symbol", order=Order.BY_TIME)
    """

    KEPT = "KEPT"
    BY_TIME = "BY_TIME"


OrderName: TypeAlias = Literal["KEPT", "BY_TIME"]
