"""Pickling of values of users' classes: by pickle, or by cloudpickle if a class cannot be imported."""

from __future__ import annotations

import contextlib
import copyreg
import importlib
import io
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import IO, Any, TypeVar

import cloudpickle

loads = pickle.loads
_Class = TypeVar("_Class", bound=type[Any])
Classes = dict[str, set[type]]
"""The classes of values by the name of the part that they were in."""
_CLOUDPICKLE, _MAKES_ENUM, _FILLS = "cloudpickle.cloudpickle", "_make_skeleton_enum", "_class_setstate"
_MAKERS = frozenset({"_make_skeleton_class", _MAKES_ENUM})
"""The functions by which a pickle has a class as a whole, one that cannot be imported."""
PICKLES_WITHIN: dict[type, Callable[[Any], Iterable[bytes]]] = {}
"""Types of values that may have pickles within, and what reads those out of one."""


def dumps(value: object) -> bytes:
    """Pickle a value, for `loads`.

    Raises what cloudpickle raises if the value cannot be pickled.
    """
    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        # pickle raises any of the three for a class that it cannot import
        return bytes(cloudpickle.dumps(value, 5))


def dumps_parts(parts: Mapping[str, tuple[Any, ...]], classes: Classes) -> bytes:
    """`dumps(dict(parts))`, which adds the classes of all values by part. Built-in types are left out.

    An object that two parts share counts for the first one.
    """
    marked = {name: _Part(name, part) for name, part in parts.items()}
    classes.update((name, set()) for name in parts if name not in classes)
    try:
        file = io.BytesIO()
        _Noting(file, classes).dump(marked)
    except (pickle.PicklingError, AttributeError, TypeError):
        file = io.BytesIO()
        _CloudNoting(file, classes).dump(marked)
    return file.getvalue()


class _Part:
    """A part whose classes are noted under its name. It is pickled as the tuple that it is."""

    __slots__ = ("content", "name")

    def __init__(self, name: str, content: tuple[Any, ...]) -> None:
        self.name, self.content = name, content


class _Notes:
    """Notes the classes of what a pickler writes; it is asked for whatever is not of a built-in type."""

    def __init__(self, file: IO[bytes], classes: Classes) -> None:
        pickler: Any = super()
        pickler.__init__(file, 5)
        self._classes = classes
        self._now: set[type] = set()

    def reducer_override(self, value: Any) -> Any:
        """Note the class, and leave the rest to the pickler."""
        kind = type(value)
        if kind is _Part:
            self._now = self._classes.setdefault(value.name, set())
            return tuple, (value.content,)
        self._now.add(kind)
        if kind in PICKLES_WITHIN:
            self._now |= pickled_classes(PICKLES_WITHIN[kind](value))
        return self._reduced(value)

    def _reduced(self, value: Any) -> Any:
        return NotImplemented


class _Noting(_Notes, pickle.Pickler):
    """With pickle."""


class _CloudNoting(_Notes, cloudpickle.Pickler):
    """With cloudpickle."""

    def _reduced(self, value: Any) -> Any:
        return cloudpickle.Pickler.reducer_override(self, value)


def pickled_classes(pickles: Iterable[bytes]) -> set[type]:
    """The classes that pickles name. One that cannot be read here is left to who reads its value."""
    found: set[type] = set()
    for data in pickles:
        unpickler = _Unpickler(io.BytesIO(data))
        unpickler.found = found
        with contextlib.suppress(Exception):
            value = unpickler.load()
            within = PICKLES_WITHIN.get(type(value))
            if within is not None:
                # a pickle may hold another one as bytes: its classes count too
                found |= pickled_classes(within(value))
    return found


class Reader:
    """Reads pickles with other classes, or functions, in the place of some.

    `replaced`: what stands for a class, by `module:qualname`. `gone`: what cannot be imported becomes a
    `Gone`, for what is not wanted any more.
    """

    def __init__(self, replaced: Mapping[str, Callable[..., Any]], *, gone: bool = False) -> None:
        self._replaced = replaced
        self.gone = gone

    def loads(self, data: Any) -> Any:
        """Read one pickle."""
        unpickler = _Unpickler(io.BytesIO(data))
        unpickler.replaced, unpickler.gone = self._replaced, self.gone
        return unpickler.load()


class _Unpickler(pickle.Unpickler):
    """Notes the classes that a pickle names, or has as a whole, and puts others in the place of some."""

    replaced: Mapping[str, Callable[..., Any]] = MappingProxyType({})
    gone = False

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.found: set[type] = set()
        self._stands: list[Callable[..., Any]] = []
        """Stand-ins for classes that the pickle contains by value."""

    def find_class(self, module: str, name: str) -> Any:
        """A class or function by its name."""
        found = self.replaced.get(f"{module}:{name}")
        if found is not None:
            return found
        try:
            found = super().find_class(module, name)
        except (ImportError, AttributeError):
            if self.gone:
                return Gone
            raise
        if isinstance(found, type):
            self.found.add(found)
        elif module == _CLOUDPICKLE and name in _MAKERS:
            return partial(self._made, found, name)
        elif module == _CLOUDPICKLE and name == _FILLS:
            return partial(self._filled, found)
        return found

    def _made(self, make: Callable[..., Any], maker: str, *arguments: Any) -> Any:
        """A class that the pickle has as a whole; what stands for it, if something does.

        Within which class it was is known later only, so the end of its name must do.
        """
        if maker == _MAKES_ENUM:
            _, name, _, _, module, *_ = arguments
        else:
            _, name, _, more, *_ = arguments
            module = more.get("__module__")
        found = [
            one
            for known, one in self.replaced.items()
            if known == f"{module}:{name}" or (known.startswith(f"{module}:") and known.endswith(f".{name}"))
        ]
        if len(found) != 1:
            made = make(*arguments)
            self.found.add(made)
            return made
        self._stands.append(found[0])
        return found[0]

    def _filled(self, fill: Callable[..., Any], made: Any, *arguments: Any) -> Any:
        """Give a class what it has, unless it stands for another one."""
        # filling the stand-in would overwrite the class of the running code
        return made if any(one is made for one in self._stands) else fill(made, *arguments)


class Gone:
    """An instance of a class that is not there any more; it cannot be written."""

    def __init__(self, *_arguments: object, **_named: object) -> None:
        """Whatever it is made of."""

    def __setstate__(self, state: object) -> None:
        """Forget what it held."""

    def __setitem__(self, key: object, value: object) -> None:
        """Forget an item."""

    def append(self, value: object) -> None:
        """Forget an item."""

    def extend(self, values: object) -> None:
        """Forget items."""

    def __reduce__(self) -> Any:
        raise TypeError("it is of a class that cannot be imported any more")


def class_name(kind: type) -> str:
    """The name by which pickles find a class: `module:qualname`; that of a built-in one alone.

    >>> class_name(int), class_name(Reader)
    ('int', 'ridgeline.api.support.pickling:Reader')
    """
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}:{kind.__qualname__}"


def class_of(name: str) -> type | None:
    """The class of a name that `class_name` gave; None if there is none. Imports its module."""
    module, _, path = name.rpartition(":")
    try:
        found: Any = importlib.import_module(module or "builtins")
        for part in path.split("."):
            found = getattr(found, part)
    except Exception:  # noqa: BLE001  a module of users may raise anything
        return None
    return found if isinstance(found, type) else None


def class_within(name: str, users: Iterable[type]) -> type | None:
    """As `class_of`; one that cannot be imported is found where the code of classes `users` finds it.

    So are those of a notebook, whose cells run in a namespace that need not be a module's.
    """
    path = name.rpartition(":")[2]
    for space in _spaces(users):
        found = space.get(path.partition(".")[0])
        for part in path.split(".")[1:]:
            found = getattr(found, part, None)
        if isinstance(found, type) and class_name(found) == name:
            return found
    return class_of(name)


def _spaces(users: Iterable[type]) -> Iterator[Mapping[str, Any]]:
    """The namespaces of functions of classes, but for those of modules."""
    for kind in dict.fromkeys(base for user in users for base in user.__mro__):
        known = getattr(sys.modules.get(kind.__module__), "__dict__", None)
        for value in vars(kind).values():
            space = getattr(value, "__globals__", None)
            if space is not None and space is not known:
                yield space


def pickled_by_values(dataclass: _Class) -> _Class:
    """Pickle instances of a dataclass as the values of its fields, in order.

    That takes half the time and half the bytes of pickling their names too. For what travels once a window.
    """
    names = [field.name for field in fields(dataclass)]
    values = attrgetter(*names)

    def reduced(instance: Any) -> tuple[type[Any], tuple[Any, ...]]:
        found = values(instance)
        return dataclass, found if len(names) > 1 else (found,)

    copyreg.pickle(dataclass, reduced)
    return dataclass
