"""How the plan and the user's own code reach the workers: as one file in the checkpoint folder.

Modules that are not installed (the application's file, its neighbours, a test) travel as source text. The
worker imports them by name. So classes are the same everywhere, and plain pickle works on their instances.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import pickle
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import IO, Any

import cloudpickle

from ridgeline.api.errors import RidgelineError, UntrustedError
from ridgeline.api.masking import secrets_in, shown
from ridgeline.engine.state import trust
from ridgeline.engine.state.storage import DriverStorage, Storage
from ridgeline.engine.worker import shipped_packages
from ridgeline.engine.worker.shipped_packages import ShippedPackage
from ridgeline.engine.worker.user_modules import user_sources
from ridgeline.plan.container_spec import ContainerSpec
from ridgeline.plan.execution import Plan

FOLDER = "plans"
Sources = Mapping[str, tuple[str, str]]
"""Path and text of modules by name."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """What workers need to read the plan: the file's name, which is its digest, and the secrets beside it.

    `owner`: the user id of the driver, whose files the workers trust. `packages`: what its modules come from.
    """

    name: str
    secrets: tuple[str | bytes, ...] = field(default=(), repr=False)
    owner: int = 0
    packages: tuple[ShippedPackage, ...] = ()


def distribute(
    storage: DriverStorage, specs: Sequence[ContainerSpec], sources: Sources | None = None
) -> PlanFile:
    """Write the specs and the user's modules, without the secrets that operators hold in properties.

    `sources`: the modules, where they are known already. May be called from several threads.
    Raises OSError, and RidgelineError naming the operator that cannot be sent.
    """
    values = [vars(operator.operator) for spec in specs for operator in spec.operators]
    found = [
        secret
        for properties in values
        for name, value in properties.items()
        for secret in secrets_in(name, value)
        if secret
    ]
    secrets = tuple(dict.fromkeys(found))
    numbers = {id(secret): secrets.index(secret) for secret in found}
    data = zlib.compress(cloudpickle.dumps((sources or user_sources(), _pickled(specs, numbers)), 5), 1)
    name = f"{FOLDER}/{hashlib.sha256(data).hexdigest()}"
    storage.create(name, data)
    return PlanFile(name, secrets, os.geteuid(), shipped_packages.ship(storage))


class _Pickler(cloudpickle.Pickler):
    """Writes a number in the place of each object of these identities."""

    def __init__(self, file: IO[bytes], numbers: Mapping[int, int]) -> None:
        super().__init__(file, protocol=5)
        self._numbers = numbers

    def persistent_id(self, value: object) -> int | None:
        """The number that stands for an object, None for most."""
        return self._numbers.get(id(value))


class _Unpickler(pickle.Unpickler):
    """Puts the secrets back."""

    def __init__(self, data: bytes, secrets: Sequence[str | bytes]) -> None:
        super().__init__(io.BytesIO(data))
        self._secrets = secrets

    def persistent_load(self, number: int) -> str | bytes:
        """The secret that a number stands for."""
        return self._secrets[number]


def _pickled(specs: Sequence[ContainerSpec], numbers: Mapping[int, int]) -> bytes:
    """Pickle the plan without its secrets. Raises RidgelineError naming what cannot be pickled."""
    try:
        if not numbers:
            return cloudpickle.dumps(tuple(specs), 5)
        file = io.BytesIO()
        _Pickler(file, numbers).dump(tuple(specs))
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
                msg = f"operator `{operator}` cannot be sent to the workers: {what}; make it in `setup`"
                raise RidgelineError(msg) from error
        remedy = "what cannot be pickled must be made in an operator's `setup`"
        msg = f"the plan cannot be sent to the workers: {error}; {remedy}"
        raise RidgelineError(msg) from error


def _can_be_pickled(value: object) -> bool:
    try:
        cloudpickle.dumps(value, 5)
    except Exception:  # noqa: BLE001  pickling runs code of users, which may raise anything
        return False
    return True


def receive(storage: Storage, shipped: PlanFile) -> tuple[ContainerSpec, ...]:
    """Read what `ship` wrote, making the user's modules importable first.

    Raises OSError, ImportError, PackageError, UntrustedError if it is not what the driver wrote.
    """
    trust.trust_owner(shipped.owner)
    data = storage.read(shipped.name)
    if hashlib.sha256(data).hexdigest() != shipped.name.rpartition("/")[2]:
        where = f"plan file `{storage.uri}/{shipped.name}`"
        what = f"{where} is not what the driver wrote: its digest differs ({len(data)} bytes)"
        msg = f"{what}; remove it and start the application again"
        raise UntrustedError(msg)
    shipped_packages.receive(storage, shipped.packages)
    sources, specs = pickle.loads(zlib.decompress(data))
    PlanFinder.install(sources)
    received: tuple[ContainerSpec, ...] = _Unpickler(specs, shipped.secrets).load()
    return received


def installed_modules(plan: Plan) -> list[str]:
    """The modules of the plan's operators that workers can import without being sent anything."""
    shipped = user_sources()
    names = {type(operator.operator).__module__ for operator in plan.physical.operators}
    return sorted(
        name
        for name in names
        if name != "__main__" and name not in shipped and not shipped_packages.has(sys.modules.get(name))
    )


class PlanFinder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports modules from shipped text.

    The text wins over what lies on the worker's path, which may be older.
    """

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
            spec = importlib.util.spec_from_loader(
                fullname, self, origin=self._sources[fullname][0], is_package=package
            )
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
