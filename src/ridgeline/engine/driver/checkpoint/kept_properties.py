"""Properties that a checkpoint keeps: what its runs were given from outside, beside the application's own.

They are part of each window's manifest, so they are those that the last committed window was computed with.
A run that commits no window keeps nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class KeptProperties:
    """The properties that runs of a checkpoint were given, by `operator.property`.

    `values`: as they were given, JSON values. `withheld`: names of those that are not kept, such as secrets.
    """

    values: Mapping[str, object] = field(default_factory=dict)
    withheld: Sequence[str] = ()

    def picture(self) -> dict[str, Any]:
        """As JSON values; empty for none. Kept values are shared, not copied."""
        return {"values": self.values, "withheld": list(self.withheld)} if self else {}

    @classmethod
    def of(cls, picture: Mapping[str, Any]) -> KeptProperties:
        """From what `picture` gave. Raises LookupError if it is another thing."""
        return cls(dict(picture["values"]), tuple(picture["withheld"])) if picture else cls()

    def __bool__(self) -> bool:
        return bool(self.values or self.withheld)

    def beside(self, given: Collection[str]) -> KeptProperties:
        """Without the properties that are given again. A whole one takes the place of its entries too.

        >>> kept = KeptProperties({"in.options.topic": "a", "in.count": "5"}, ("in.options.password",))
        >>> kept.beside(["in.options"])
        KeptProperties(values={'in.count': '5'}, withheld=())
        """

        def stays(name: str) -> bool:
            parts = name.split(".")
            return not any(".".join(parts[:length]) in given for length in range(1, len(parts) + 1))

        values = {name: value for name, value in self.values.items() if stays(name)}
        return KeptProperties(values, tuple(filter(stays, self.withheld)))

    def joined(self, given: Mapping[str, object], withheld: Collection[str]) -> KeptProperties:
        """With the properties that are given again, without the values of those that are `withheld`.

        >>> KeptProperties({"sum.limit": "5"}).joined({"sum.limit": "6", "in.token": "x"}, ["in.token"])
        KeptProperties(values={'sum.limit': '6'}, withheld=('in.token',))
        """
        left = self.beside(given)
        added = {name: value for name, value in given.items() if name not in withheld}
        return KeptProperties({**left.values, **added}, (*left.withheld, *withheld))

    def without(self, operator: str) -> KeptProperties:
        """Without those of an operator, or of all in a module.

        >>> KeptProperties({"sum.limit": "5", "sums.limit": "6"}).without("sum")
        KeptProperties(values={'sums.limit': '6'}, withheld=())
        """
        inside = f"{operator}."
        values = {name: value for name, value in self.values.items() if not name.startswith(inside)}
        return KeptProperties(values, tuple(name for name in self.withheld if not name.startswith(inside)))

    def renamed(self, old: str, new: str) -> KeptProperties:
        """With those of an operator under its new name.

        >>> KeptProperties({"sum.limit": "5"}, ("sum.token",)).renamed("sum", "total")
        KeptProperties(values={'total.limit': '5'}, withheld=('total.token',))
        """

        def called(name: str) -> str:
            return f"{new}.{name[len(old) + 1 :]}" if name.startswith(f"{old}.") else name

        return KeptProperties(
            {called(name): value for name, value in self.values.items()}, tuple(map(called, self.withheld))
        )


NOTHING_KEPT = KeptProperties()
