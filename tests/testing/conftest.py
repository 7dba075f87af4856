"""What tests of this folder share."""

import importlib
import sys

import pytest


@pytest.fixture
def version(tmp_path, monkeypatch):
    """`version(text)` imports a module of this text in the place of those before: a release."""
    folder, names = tmp_path / "versions", set()
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def forget():
        for known in names:
            sys.modules.pop(known, None)
            (folder / f"{known}.py").unlink(missing_ok=True)

    def load(text, name="versioned_app"):
        forget()
        names.add(name)
        (folder / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield load
    forget()
