"""How the plan and the user's own code reach the workers: on the connections of slots, and as files.

The specs of containers travel in messages. The code lies in the checkpoint folder (`user_files`). The worker
imports modules that are not installed (the application's file, its neighbours, a test) by name, as they were
in the driver. So classes are the same everywhere, and plain pickle works on their instances.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.util
import io
import os
import pickle
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, NamespaceLoader, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import cloudpickle

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust
from ridgeline.api.support.masking import hide, secrets_in, shown
from ridgeline.engine.files.storage import DriverStorage, Storage
from ridgeline.engine.process import shipped_packages, user_files
from ridgeline.engine.process.shipped_packages import ShippedPackage
from ridgeline.engine.process.user_files import Source, UserFiles, user_modules
from ridgeline.plan.container_spec import ContainerSpec
from ridgeline.plan.execution import Plan

_MAKE_CLASS, _MADE_WITH = "_make_skeleton_class", 3
"""The function of cloudpickle that makes a class again, and which argument has what its body begins with."""
_MAKERS = frozenset({_MAKE_CLASS, "_make_skeleton_enum"})
_SCRIPTS = "a class of the script"
"""The last argument of these functions, which they do not use, for a class that the script itself has."""


@dataclass(frozen=True, slots=True)
class ShippedCode:
    """The user's code in the checkpoint folder, as the driver of an epoch has written it.

    `owner`: the user id of the driver, whose files the workers trust. `packages`: what its modules come from.
    `files`: the user's own modules, and what lies beside them.
    """

    owner: int = 0
    packages: tuple[ShippedPackage, ...] = ()
    files: UserFiles | None = None
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class ShippedPlan:
    """Some containers of a plan for workers: their specs, and the code that these need.

    `name`: a digest of both. The specs have the secrets that operators hold in properties: they travel on the
    connections of the slots only, and lie nowhere.
    """

    name: str
    specs: bytes = field(default=b"", repr=False)
    code: ShippedCode = ShippedCode()


def ship_code(storage: DriverStorage, epoch: int = 0) -> ShippedCode:
    """Write the packages, the user's modules and the files beside them. Raises OSError."""
    packages = shipped_packages.ship(storage, epoch)
    return ShippedCode(os.geteuid(), packages, user_files.ship(storage, epoch), epoch)


def distribute(
    storage: DriverStorage, specs: Sequence[ContainerSpec], code: ShippedCode | None = None, epoch: int = 0
) -> ShippedPlan:
    """Pack specs for workers.

    `code`: the user's, where it is shipped already. `epoch`: the driver's. May be called from several
    threads.
    Raises OSError, and RidgelineError naming the operator that cannot be sent.
    """
    _hide_secrets(specs)
    packed = zlib.compress(_pickled(specs), 1)  # before anything is written: it says what cannot be
    code = code or ship_code(storage, epoch)
    name = hashlib.sha256(packed + (code.files.sha256 if code.files else "").encode()).hexdigest()
    return ShippedPlan(name, packed, code)


def _hide_secrets(specs: Sequence[ContainerSpec]) -> None:
    """Let errors and lines of this process show no secret that operators hold in properties."""
    for operator in (one.operator for spec in specs for one in spec.operators):
        for name, value in vars(operator).items():
            for secret in secrets_in(name, value):
                hide(secret if isinstance(secret, str) else secret.decode(errors="replace"))


class _Pickler(cloudpickle.Pickler):
    """Says which classes the script has by their names."""

    def reducer_override(self, obj: Any) -> Any:
        """As cloudpickle does, but for these classes.

        A class with slots gets them where it is made again. Else its instances would be pickled otherwise
        there, and could not be read here.
        """
        reduced = super().reducer_override(obj)
        if not isinstance(obj, type) or not isinstance(reduced, tuple):
            return reduced
        make, arguments, *rest = reduced
        if getattr(make, "__name__", "") not in _MAKERS or not _is_scripts(obj):
            return reduced
        values = [*arguments[:-1], _SCRIPTS]
        if make.__name__ == _MAKE_CLASS and "__slots__" in vars(obj) and not issubclass(obj, tuple):
            values[_MADE_WITH] = {**values[_MADE_WITH], "__slots__": vars(obj)["__slots__"]}
        return make, tuple(values), *rest


def _is_scripts(kind: type) -> bool:
    """True for a class that the script itself has by its name."""
    return kind.__module__ == "__main__" and getattr(sys.modules["__main__"], kind.__name__, None) is kind


class _Unpickler(pickle.Unpickler):
    """Notes the classes that travel as a whole: those of the script itself."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self._made: list[type] = []

    def find_class(self, module: str, name: str) -> Any:
        """As usual, but what makes classes notes them."""
        found = super().find_class(module, name)
        if name not in _MAKERS or module != "cloudpickle.cloudpickle":
            return found

        def make(*values: Any) -> type:
            made: type = found(*values)
            if values[-1] == _SCRIPTS:
                self._made.append(made)
            return made

        return make

    def name_classes(self) -> None:
        """Let pickle find the classes of the script by their names, as in the process that runs it.

        Else each value in a state would carry its class, and be of another class in the next process.
        """
        main = sys.modules["__main__"]
        own = [kind for kind in self._made if getattr(main, kind.__name__, None) is not kind]
        if own and not isinstance(main, _Script):
            main = sys.modules["__main__"] = _Script(main)  # what runs here keeps its own names
        for kind in own:
            setattr(main, kind.__name__, kind)


class _Script(ModuleType):
    """The script as far as a worker has it: its classes."""

    def __init__(self, runs_here: ModuleType) -> None:
        super().__init__("__main__", runs_here.__doc__)
        vars(self).update(vars(runs_here))


def _pickled(specs: Sequence[ContainerSpec]) -> bytes:
    """Pickle specs. Raises RidgelineError naming what cannot be pickled."""
    try:
        file = io.BytesIO()
        _Pickler(file, protocol=5).dump(tuple(specs))
        return file.getvalue()
    except Exception as error:
        named = [
            (op.name, name, value)
            for spec in specs
            for op in spec.operators
            for name, value in vars(op.operator).items()
        ]
        for operator, name, value in named:
            if not _can_be_pickled(value):
                what = f"its `{name}` is {shown(name, value)} ({error})"
                raise RidgelineError(
                    f"operator `{operator}` cannot be sent to the workers: {what}; make it in `setup`"
                ) from error
        remedy = "what cannot be pickled must be made in an operator's `setup`"
        raise RidgelineError(f"the plan cannot be sent to the workers: {error}; {remedy}") from error


def _can_be_pickled(value: object) -> bool:
    try:
        cloudpickle.dumps(value, 5)
    except Exception:  # noqa: BLE001  pickling runs code of users, which may raise anything
        return False
    return True


def receive(storage: Storage, shipped: ShippedPlan) -> tuple[ContainerSpec, ...]:
    """The specs that `distribute` packed, making the user's modules importable first.

    Raises OSError, ImportError, PackageError, UntrustedError if a file is not what the driver wrote.
    """
    code = shipped.code
    trust.trust_owner(code.owner)
    shipped_packages.receive(storage, code.packages, code.epoch)
    if code.files is not None:
        PlanFinder.install(user_files.receive(storage, code.files, code.epoch))
    unpickler = _Unpickler(zlib.decompress(shipped.specs))
    received: tuple[ContainerSpec, ...] = unpickler.load()
    unpickler.name_classes()
    _hide_secrets(received)
    return received


def installed_modules(plan: Plan) -> list[str]:
    """The modules of the plan's operators that workers can import without being sent anything."""
    shipped = user_modules()
    names = {type(operator.operator).__module__ for operator in plan.physical.operators}
    return sorted(
        name
        for name in names
        if name != "__main__" and name not in shipped and not shipped_packages.has(sys.modules.get(name))
    )


class _ShippedLoader(SourceFileLoader):
    """Runs the shipped text of a module. What lies beside it is found in its folder on this host."""

    def __init__(self, name: str, source: Source) -> None:
        super().__init__(name, source.here)
        self._source = source

    def get_data(self, path: str) -> bytes:
        """The shipped text, or a file beside it, for `pkgutil.get_data`. Raises OSError."""
        return self._source.text if path == self._source.here else super().get_data(path)

    def path_stats(self, path: str) -> Mapping[str, Any]:
        """Raises OSError: what Python has compiled on this host may be of another text."""
        raise OSError(path)

    def source_to_code(  # type: ignore[override]  # it is static for type checkers only
        self, data: Any, path: Any, *, _optimize: int = -1
    ) -> CodeType:
        """Compiled with the path that the module has on the driver."""
        return super().source_to_code(data, self._source.path, _optimize=_optimize)


class PlanFinder(importlib.abc.MetaPathFinder):
    """Imports modules from shipped text, which wins over what lies on the worker's path: it may be older."""

    _sources: dict[str, Source] = {}  # noqa: RUF012  one finder a process

    @classmethod
    def install(cls, sources: Mapping[str, Source]) -> None:
        """Make these modules importable; those that are loaded already stay."""
        cls._sources.update(sources)
        if not any(isinstance(finder, cls) for finder in sys.meta_path):
            sys.meta_path.insert(0, cls())
        importlib.invalidate_caches()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a shipped module, or of a package that only holds some."""
        if (source := self._sources.get(fullname)) is not None:
            loader = _ShippedLoader(fullname, source)
            return importlib.util.spec_from_file_location(fullname, source.here, loader=loader)
        folders = list(dict.fromkeys(self._folders(fullname)))
        if not folders:
            return None
        namespace = NamespaceLoader(fullname, folders, _no_other_folders)
        spec = ModuleSpec(fullname, namespace, is_package=True)
        spec.submodule_search_locations = namespace._path  # type: ignore[attr-defined]  # noqa: SLF001  as Python
        return spec

    def _folders(self, package: str) -> Iterator[str]:
        """The folders of a package without a file of its own, by the shipped modules in it."""
        for name, source in self._sources.items():
            if name.startswith(f"{package}."):
                file = Path(source.here)
                deeper = name.count(".") - package.count(".") - 1 + (file.name == "__init__.py")
                yield str(file.parents[deeper])


def _no_other_folders(_name: str, _path: object) -> None:
    """A package without a file of its own stays where it was found."""
