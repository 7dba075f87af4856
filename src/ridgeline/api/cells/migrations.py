"""Migrations: what a new version of an operator does to the state that versions before it have left.

An operator class lists them, the oldest first, and never takes one away. The checkpoint keeps which of them
its state has been through, so each is carried out once. State of any version before gets those that it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ridgeline.api.errors import did_you_mean, shorten


@dataclass(frozen=True)
class Migration:
    """One step from a version of an operator's state to the next.

    `state`: the state's name from here on. `function` makes each value of a `KeyedState`, each item of a
    `ListState`, the value of a `State` from the one before. It gets records: a value of a class is a `dict`
    of its fields, a member of an Enum the text of its name. What it returns becomes what the state declares.
    Keys stay as they are. `was`: the state's name before; without `state`, that of the operator, within a
    module the full one (`clean.cheap`). `drop`: the values are dropped.

    `name`: by which the checkpoint remembers it. Without it, the step's own text. Two that are alike in one
    list need names. Raises ValueError for a step that says nothing, or two things.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import KeyedState, Migration, Operator
        >>> class Account(NamedTuple):
        ...     cents: int
        >>> def in_cents(account: dict) -> dict:
        ...     return {"cents": round(account["euros"] * 100)}
        >>> class Balances(Operator):
        ...     accounts = KeyedState(Account, key=int)
        ...     migrations = [Migration("accounts", was="balances"), Migration("accounts", in_cents)]
        >>> [one.title for one in Balances.migrations]
        ['state `balances` renamed to `accounts`', 'state `accounts` converted']
    """

    state: str = ""
    function: Callable[[Any], Any] | None = None
    was: str = ""
    drop: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        said = sum(map(bool, (self.function, self.was, self.drop)))
        if said != 1 or (not self.state and not self.was):
            ways = '`Migration("state", function)`, `("state", was="old")`, `("state", drop=True)`'
            raise ValueError(f"a migration says one thing: {ways}; `(was=...)` is the operator's former name")

    @property
    def text(self) -> str:
        """The step, in words."""
        if not self.state:
            return f"called `{self.was}` before"
        done = "removed" if self.drop else "converted"
        return f"state `{self.was}` renamed to `{self.state}`" if self.was else f"state `{self.state}` {done}"

    @property
    def title(self) -> str:
        """The text by which the checkpoint remembers it."""
        return self.name or self.text


def migrations_of(operator: Any) -> list[tuple[str, Migration]]:
    """The migrations of an operator, with the texts by which a checkpoint remembers them.

    Those of its class come first, of its bases before; then those that the application gives.
    """
    bases = reversed(type(operator).__mro__)
    own = [(one.title, one) for base in bases for one in _listed(base) if isinstance(one, Migration)]
    given: tuple[Migration, ...] = vars(operator).get("_migrations", ())
    return [*own, *((f"application: {one.title}", one) for one in given)]


def _listed(kind: type) -> Sequence[object]:
    """What a class lists as migrations; nothing if it calls something else so."""
    listed = vars(kind).get("migrations", ())
    is_list = isinstance(listed, (list, tuple)) and any(isinstance(one, Migration) for one in listed)
    return listed if is_list else ()


def steps_of(operator: Any) -> list[tuple[str, Migration]]:
    """The same without former names of the operator: those are no steps of its state."""
    return [(title, one) for title, one in migrations_of(operator) if one.state]


def faults_of(operator: Any, states: Collection[str]) -> Iterator[tuple[str, str]]:
    """Faults of its migrations, each as what is wrong and the remedy. `states`: that it declares."""
    for base in type(operator).__mro__:
        for one in _listed(base):
            if not isinstance(one, Migration):
                yield f"`{base.__name__}.migrations` has {shorten(one)}", "give `Migration(...)`"
    steps = steps_of(operator)
    titles = [title for title, _ in steps]
    for title in dict.fromkeys(one for one in titles if titles.count(one) > 1):
        yield f"two migrations are `{title}`", "give it a `name` of its own, if it is meant twice"
    names = set(states)
    for _, one in reversed(steps):  # the names of states are known at the end
        if not one.drop and one.state not in names:
            yield f"`{one.text}`: it has no state `{one.state}` then", did_you_mean(one.state, names)
        if one.was:
            names.discard(one.state)
        names.add(one.was or one.state)  # one that is dropped may have been declared again later
