"""Migrations: what a new version of an operator does to the state that versions before it have left.

An operator class lists them, the oldest first, and never takes one away. The checkpoint keeps which of them
its state has been through, so each is carried out once. State of any version before gets those that it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ridgeline.api.errors import did_you_mean, shorten
from ridgeline.api.support.pickling import class_name

ClassRef: TypeAlias = type | str
"""A class, or its qualified name where the class is there no more: `"Account"`, `"Book.Entry"`."""
_SAME = "give it a `name` of its own, if it is meant twice"


@dataclass(frozen=True, kw_only=True)
class Migration:
    """One step from a version of an operator's state to the next; see its subclasses.

    `name`: by which the checkpoint remembers it. Without it, the step's own text. Two that are alike in one
    list need names.

    Example:
        >>> from ridgeline import RenamedState
        >>> RenamedState("totals", "sums").title, RenamedState("a", "b", name="2026-03").title
        ('state `totals` renamed to `sums`', '2026-03')
    """

    name: str = ""

    @property
    def text(self) -> str:
        """The step, in words."""
        return type(self).__name__

    @property
    def title(self) -> str:
        """The text by which the checkpoint remembers it."""
        return self.name or self.text


@dataclass(frozen=True)
class RenamedState(Migration):
    """The state `old` is called `new` from here on.

    Example:
        >>> from ridgeline import KeyedState, Operator, RenamedState
        >>> class Count(Operator):
        ...     totals = KeyedState(int, default=0)
        ...     migrations = [RenamedState("sums", "totals")]
    """

    old: str
    new: str

    @property
    def text(self) -> str:
        """The step, in words."""
        return f"state `{self.old}` renamed to `{self.new}`"


@dataclass(frozen=True)
class RemovedState(Migration):
    """The values of the state `state` are dropped.

    Example:
        >>> from ridgeline import Operator, RemovedState, State
        >>> class Count(Operator):
        ...     total = State(0)
        ...     migrations = [RemovedState("debug_counts")]
    """

    state: str

    @property
    def text(self) -> str:
        """The step, in words."""
        return f"state `{self.state}` removed"


@dataclass(frozen=True)
class RenamedField(Migration):
    """The field `old` of the class `kind` is called `new` from here on; so is a member of an Enum.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import KeyedState, Operator, RenamedField
        >>> class Account(NamedTuple):
        ...     cents: int
        >>> class Count(Operator):
        ...     accounts = KeyedState(Account, key=int)
        ...     migrations = [RenamedField(Account, "amount", "cents")]
    """

    kind: ClassRef
    old: str
    new: str

    @property
    def text(self) -> str:
        """The step, in words."""
        return f"field `{self.old}` of `{path_of(self.kind)}` renamed to `{self.new}`"


@dataclass(frozen=True)
class RemovedField(Migration):
    """The values of the field `field` of the class `kind` are dropped.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import KeyedState, Operator, RemovedField
        >>> class Account(NamedTuple):
        ...     cents: int
        >>> class Count(Operator):
        ...     accounts = KeyedState(Account, key=int)
        ...     migrations = [RemovedField(Account, "note")]
    """

    kind: ClassRef
    field: str

    @property
    def text(self) -> str:
        """The step, in words."""
        return f"field `{self.field}` of `{path_of(self.kind)}` removed"


@dataclass(frozen=True)
class ConvertedField(Migration):
    """`function` makes the value of a field of the class `kind` of its value before.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import ConvertedField, KeyedState, Operator
        >>> class Account(NamedTuple):
        ...     cents: int
        >>> class Count(Operator):
        ...     accounts = KeyedState(Account, key=int)
        ...     migrations = [ConvertedField(Account, "cents", lambda dollars: round(dollars * 100))]
    """

    kind: ClassRef
    field: str
    function: Callable[[Any], Any]

    @property
    def text(self) -> str:
        """The step, in words."""
        return f"field `{self.field}` of `{path_of(self.kind)}` converted"


@dataclass(frozen=True)
class ConvertedState(Migration):
    """`function` makes a value of the state `state` of the value before.

    It gets each value of a `KeyedState`, each item of a `ListState`, the value of a `State`. A value whose
    class is gone, or has other fields now, comes as a `Former`. Functions after the first get what the one
    before has returned. Keys stay as they are.

    Example:
        >>> from ridgeline import ConvertedState, KeyedState, Operator
        >>> class Mean(Operator):
        ...     sums = KeyedState(tuple, key=int)
        ...     migrations = [ConvertedState("sums", lambda total: (1, total))]
    """

    state: str
    function: Callable[[Any], Any]

    @property
    def text(self) -> str:
        """The step, in words."""
        return f"state `{self.state}` converted"


@dataclass(frozen=True)
class FormerName(Migration):
    """The operator was called `operator` before: its state in a checkpoint has that name.

    Within a module it is the full name, `clean.cheap`. The operator's own name counts first.

    Example:
        >>> from ridgeline import Application, FormerName
        >>> from ridgeline.operators import RandomEventGenerator
        >>> app = Application("dice")
        >>> dice = app.add_operator("dice", RandomEventGenerator(maximum=6))
        >>> app.add_migrations(dice, FormerName("cubes"))
    """

    operator: str

    @property
    def text(self) -> str:
        """The step, in words."""
        return f"called `{self.operator}` before"


class Former:
    """A value whose class is there no more, or is another one: its fields are attributes.

    `former_class` is the class's qualified name. A member of an Enum has `member`, its name.

    Example:
        >>> from ridgeline import Former
        >>> old = Former("Account", cents=5)
        >>> old.cents, old.former_class
        (5, 'Account')
    """

    def __init__(self, former_class: str, **fields: Any) -> None:
        self.former_class = former_class
        vars(self).update(fields)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"Former({fields})"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a value of the class `{self.__dict__.get('former_class')}` that was has no `{name}`"
        )

    def __reduce__(self) -> Any:
        raise TypeError(f"it is a `{self.former_class}`, a class that is there no more: convert it")


def path_of(kind: ClassRef) -> str:
    """The qualified name of a class, without its module."""
    return class_name(kind).rpartition(":")[2] if isinstance(kind, type) else kind.rpartition(":")[2]


def migrations_of(operator: Any) -> tuple[Migration, ...]:
    """The migrations of an operator: those of its class, bases first, then those that the application gives.

    Those that the application gives are remembered apart, see `title_of`.
    """
    return (*_of_class(type(operator)), *vars(operator).get("_migrations", ()))


def titles_of(operator: Any) -> list[tuple[str, Migration]]:
    """The same, with the texts by which a checkpoint remembers them. Former names are no steps."""
    own = [(one.title, one) for one in _of_class(type(operator))]
    given = [(f"application: {one.title}", one) for one in vars(operator).get("_migrations", ())]
    return [(title, one) for title, one in (*own, *given) if not isinstance(one, FormerName)]


def _of_class(kind: type) -> Iterator[Migration]:
    for base in reversed(kind.__mro__):
        listed = vars(base).get("migrations", ())
        if _is_list(listed):
            yield from (one for one in listed if isinstance(one, Migration))


def faults_of(operator: Any, states: Collection[str]) -> Iterator[tuple[str, str]]:
    """Faults of an operator's migrations, each as what is wrong and the remedy. `states`: that it declares.

    From the last to the first: the names of states are known at the end.
    """
    for base in type(operator).__mro__:
        listed = vars(base).get("migrations", ())
        if _is_list(listed) and any(isinstance(one, Migration) for one in listed):
            for one in listed:
                if not isinstance(one, Migration):
                    yield (
                        f"`{base.__name__}.migrations` has {shorten(one)}",
                        "give `RenamedState(...)` and others",
                    )
    steps = titles_of(operator)
    titles = [title for title, _ in steps]
    for title in dict.fromkeys(one for one in titles if titles.count(one) > 1):
        yield f"two migrations are `{title}`", _SAME
    yield from _unknown_states(steps, states)


def _unknown_states(steps: list[tuple[str, Migration]], states: Collection[str]) -> Iterator[tuple[str, str]]:
    """The faults of steps that name a state that there is not at that step."""
    names = set(states)
    for _, one in reversed(steps):
        match one:
            case RenamedState(old, new):
                if new not in names:
                    yield f"`{one.text}`: it has no state `{new}` then", did_you_mean(new, names)
                names.discard(new)
                names.add(old)
            case RemovedState(state):
                names.add(state)  # a state that is there now, too, was declared again later
            case ConvertedState(state, _):
                if state not in names:
                    yield f"`{one.text}`: it has no such state then", did_you_mean(state, names)
            case _:
                pass


def _is_list(listed: object) -> bool:
    return isinstance(listed, (list, tuple))
