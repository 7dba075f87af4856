"""Files of applications as modules: their names, and how a specification finds them again."""

from __future__ import annotations

import importlib.abc
import importlib.util
import re
import site
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from ridgeline.plan.spec.imports import APP_PREFIX


def module_stem(file: Path) -> str:
    """The name of a file as that of a module: without what no name may have."""
    stem = re.sub(r"\W", "_", file.stem)
    return stem if stem.isidentifier() else f"_{stem}"


class _ApplicationFiles(importlib.abc.MetaPathFinder):
    """Finds the files of applications whose module has another name than the file.

    It is asked last. A specification names the classes of `profile.py` by `ridgeline_app_profile`, and those
    of `my-app.py` by `my_app`.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of such a file in one of the user's folders on the path."""
        if path is not None:
            return None
        stem = fullname.removeprefix(APP_PREFIX)
        installed = (*site.getsitepackages(), sysconfig.get_path("stdlib"))
        for folder in sys.path:
            if not folder.startswith(installed):
                for file in sorted(Path(folder).glob("*.py")):
                    if module_stem(file) == stem and (stem != fullname or stem != file.stem):
                        return importlib.util.spec_from_file_location(fullname, file)
        return None


def find_application_files() -> None:
    """Let the modules of application files be imported by the name that they have when they run."""
    if not any(isinstance(finder, _ApplicationFiles) for finder in sys.meta_path):
        sys.meta_path.append(_ApplicationFiles())
