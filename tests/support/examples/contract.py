"""The applications of the contract, `tests/support/examples/streams/`, run as they are."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.paths import SUPPORT

FILES = SUPPORT / "examples" / "streams"
_CONNECTORS = "ridgeline.operators"


def application(
    name: str, patch: pytest.MonkeyPatch, connectors: Mapping[str, Mapping[str, Any]] | None = None
) -> ModuleType:
    """The module of a file. `connectors`: stand-ins, by module of `ridgeline.operators` and by name."""
    for module, names in (connectors or {}).items():
        stand_in = ModuleType(f"{_CONNECTORS}.{module}")
        vars(stand_in).update(names)
        patch.setitem(sys.modules, stand_in.__name__, stand_in)
    return loaded(FILES / f"{name}.py", patch)


def loaded(file: Path, patch: pytest.MonkeyPatch) -> ModuleType:
    """The module of a file, which is forgotten after the test."""
    spec = importlib.util.spec_from_file_location(f"contract_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, spec.name, made)
    spec.loader.exec_module(made)
    return made
