"""Scripts of this repository as modules."""

import importlib.util
import sys

from support.paths import ROOT


def script(name):
    """`scripts/NAME.py` as a module, loaded anew."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses of it look themselves up there
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module
