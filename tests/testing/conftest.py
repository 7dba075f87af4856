"""What tests of this folder share."""

import importlib
import sys

import pytest

from ridgeline.engine.state import keyed_segments


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


@pytest.fixture
def in_segments(segments, monkeypatch):
    """Lets a keyed state of a few keys lie in segments, if the parameter `segments` says so."""
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", 4 if segments else 50_000)
