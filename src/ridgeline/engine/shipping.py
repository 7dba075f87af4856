"""How the plan and the user's own code reach the workers: as one file in the checkpoint folder.

Modules that are not installed (the application's file, its neighbours, a test) travel as source text and are imported by name in the
worker, so classes are the same everywhere and plain pickle works on their instances.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import pickle
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import cloudpickle

from ridgeline.api.errors import RidgelineError, shorten
from ridgeline.engine.spec import ContainerSpec
from ridgeline.engine.storage import DriverStorage, Storage
from ridgeline.engine.user_modules import user_sources
from ridgeline.plan.execution import Plan

FOLDER = "plans"
Sources = Mapping[str, tuple[str, str]]
"""Path and text of modules by name."""


def ship(storage: DriverStorage, specs: Sequence[ContainerSpec]) -> str:
    """Write the specs and the user's modules; returns the file's name, which depends on its content.

    Raises OSError, and RidgelineError naming the operator that cannot be sent.
    """
    data = zlib.compress(cloudpickle.dumps((user_sources(), _pickled(specs)), 5), 1)
    name = f"{FOLDER}/{zlib.crc32(data):08x}-{len(data)}"
    storage.create(name, data)
    return name


def _pickled(specs: Sequence[ContainerSpec]) -> bytes:
    try:
        return cloudpickle.dumps(tuple(specs), 5)
    except Exception as error:
        named = [(op.name, name, value) for spec in specs for op in spec.operators for name, value in vars(op.operator).items()]
        for operator, name, value in named:
            if not _can_be_pickled(value):
                msg = f"operator `{operator}` cannot be sent to the workers: its `{name}` is {shorten(value)} ({error}); make it in `setup`"
                raise RidgelineError(msg) from error
        msg = f"the plan cannot be sent to the workers: {error}; what cannot be pickled must be made in an operator's `setup`"
        raise RidgelineError(msg) from error


def _can_be_pickled(value: Any) -> bool:
    try:
        cloudpickle.dumps(value, 5)
    except Exception:  # noqa: BLE001  whatever it is, it cannot
        return False
    return True


def receive(storage: Storage, name: str) -> tuple[ContainerSpec, ...]:
    """Read what `ship` wrote, making the user's modules importable first. Raises OSError, ImportError."""
    sources, specs = pickle.loads(zlib.decompress(storage.read(name)))
    ShippedFinder.install(sources)
    return pickle.loads(specs)


def installed_modules(plan: Plan) -> list[str]:
    """The modules of the plan's operators that workers can import without being sent anything."""
    shipped = user_sources()
    names = {type(operator.operator).__module__ for operator in plan.physical.operators}
    return sorted(name for name in names if name != "__main__" and name not in shipped)


class ShippedFinder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports modules from shipped text. The text wins over what lies on the worker's path, which may be older."""

    _sources: dict[str, tuple[str, str]] = {}  # noqa: RUF012  one finder a process

    @classmethod
    def install(cls, sources: Sources) -> None:
        """Make these modules importable; those that are loaded already stay."""
        cls._sources.update(sources)
        if not any(isinstance(finder, cls) for finder in sys.meta_path):
            sys.meta_path.insert(0, cls())

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a shipped module, or of a package that only holds some."""
        is_parent = any(name.startswith(f"{fullname}.") for name in self._sources)
        if fullname in self._sources:
            package = self.is_package(fullname)
            spec = importlib.util.spec_from_loader(fullname, self, origin=self._sources[fullname][0], is_package=package)
            if spec is not None:
                spec.has_location = True
            return spec
        if is_parent:
            return importlib.machinery.ModuleSpec(fullname, None, is_package=True)
        return None

    def get_source(self, fullname: str) -> str:
        """The shipped text."""
        return self._sources[fullname][1]

    def get_code(self, fullname: str) -> CodeType:
        """Compiled with the path that the module has on the driver."""
        path, text = self._sources[fullname]
        return self.source_to_code(text, path)

    def is_package(self, fullname: str) -> bool:
        """True for a package's own file, whether modules of it are shipped or not."""
        return Path(self._sources[fullname][0]).name == "__init__.py"

    def exec_module(self, module: Any) -> None:
        """Run the text."""
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102  what an import is
