"""Find a class or function by its import path, and the import path of one."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

from ridgeline.api.errors import did_you_mean

_SCRIPT = "__main__"
APP_PREFIX = "ridgeline_app_"
"""Of the module that an application's file becomes, if something else has the name of the file."""


class ImportPathError(Exception):
    """An import path names nothing that can be had: what is wrong, and what to do."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


def import_path(path: str) -> Any:
    """The object that `package.module.Name` names; its module is imported, nothing else is run.

    Raises ImportPathError.
    """
    parts = path.split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):  # noqa: PLR2004  module and name
        what = f"`{path}` is no import path"
        raise ImportPathError(what, "write `package.module.Name`")
    found: Any = _module(parts[0], path)
    for number, part in enumerate(parts[1:], 2):
        if isinstance(found, ModuleType) and not hasattr(found, part):
            if number < len(parts) and hasattr(found, "__path__"):
                found = _module(".".join(parts[:number]), path)
                continue
            names = [name for name in vars(found) if not name.startswith("_")]
            what = f"the module `{found.__name__}` has no `{part}`"
            if found.__name__ == _SCRIPT:
                what = f"the script that runs has no `{part}`"
                raise ImportPathError(what, "run the script that defines it, or put it into a module")
            raise ImportPathError(what, did_you_mean(part, names) if names else "look at the module")
        if not hasattr(found, part):
            raise ImportPathError(f"`{'.'.join(parts[: number - 1])}` has no `{part}`", "look at the module")
        found = getattr(found, part)
    return found


def _module(name: str, path: str) -> ModuleType:
    """Import a module. Raises ImportPathError."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            what = f"there is no module `{name}`, which `{path}` names"
            if name.startswith(APP_PREFIX):
                what = f"there is no file `{name.removeprefix(APP_PREFIX)}.py`, which `{path}` names"
                raise ImportPathError(what, "put it beside the specification, or on PYTHONPATH") from None
            raise ImportPathError(
                what, f"put it beside the specification, on PYTHONPATH, or install what has it{_near(name)}"
            ) from None
        what = f"the module `{name}` needs `{error.name}`, which is not installed"
        raise ImportPathError(what, f"install what has `{error.name}`") from None
    except (Exception, SystemExit) as error:
        what = f"the module `{name}` fails when it is imported: {type(error).__name__}: {error}"
        raise ImportPathError(what, "mend the module") from error


def _near(name: str) -> str:
    known = {loaded.partition(".")[0] for loaded in sys.modules.copy()}
    hint = did_you_mean(name, known)
    return f"; {hint}" if hint.startswith("did you mean") else ""


def path_of(thing: Any, *, of_script: bool = False) -> str | None:
    """The import path of a class or function; None if it has none that leads back to it.

    `of_script`: what the script that runs defines has one too, for this process: `__main__.Name`.
    """
    # a class that the library made for a key is made again by its base
    thing = vars(thing).get("_undivided", thing) if isinstance(thing, type) else thing
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or (module == _SCRIPT and not of_script):
        return None
    parents = module.split(".")
    for end in range(1, len(parents) + 1):  # the shortest: `ridgeline.operators.FileOutput`
        shorter = ".".join(parents[:end])
        found: Any = sys.modules.get(shorter)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is thing:
            return f"{shorter}.{name}"
    return None
