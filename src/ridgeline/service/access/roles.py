"""The roles of those who ask, and a person or program that has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """The rights of a person or program. A greater one includes the lesser ones."""

    READ = 1
    OPERATE = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """Its name in files and answers: `read`."""
        return self.name.lower()

    @classmethod
    def of(cls, word: str) -> Role:
        """The role of a word. Raises ValueError."""
        try:
            return cls[word.upper()]
        except KeyError:
            known = ", ".join(one.word for one in cls)
            raise ValueError(f"`{word}` is no role; give one of {known}") from None


MAY: Mapping[Role, str] = {
    Role.READ: "see everything but tuples and lines of operators",
    Role.OPERATE: "also change values, partitions and attributes, pause, stop, record, query, read logs",
    Role.ADMIN: "also do what can run code: add operators, change scripts, kill",
}
"""The rights of each role, in words."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The proof of a request, before roles are looked up.

    `source`: `owner`, `reader`, `token`, `proxy` or `open` (who reaches the service). `name`: of the person
    or program. `key`: what the rules know it by. `groups`: those that a proxy names.
    """

    name: str
    source: str
    key: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, and the role of that moment; None: no right at all.

    `way`: how it is proved: `token`, `session` of the page, or `ambient`, which a browser sends by itself.
    """

    identity: Identity
    role: Role | None
    way: str = "token"

    def may(self, needed: Role) -> bool:
        """Whether the role is enough."""
        return self.role is not None and self.role >= needed

    @property
    def is_named(self) -> bool:
        """Whether it is known by a name of its own, which no text of the request may replace."""
        return self.identity.source not in {"owner", "reader", "open"}

    def said(self, text: str | None) -> str:
        """Who asks for a change, as it is shown: the name that is proved, then what the request says.

        >>> Caller(Identity("ann", "token"), Role.OPERATE).said("page"), Caller(OWNER, Role.ADMIN).said(None)
        ('ann (page)', 'REST')
        """
        if not self.is_named:
            return text or "REST"
        return f"{self.identity.name} ({text})" if text else self.identity.name


OWNER = Identity("owner", "owner")
READER = Identity("reader", "reader")
ANYBODY = Identity("", "open")
UNKNOWN = Caller(ANYBODY, None)
