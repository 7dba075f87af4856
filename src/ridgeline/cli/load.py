"""From the command's APP to an `Application`: a file, `module:attribute`, a specification, a package."""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.util
import inspect
import os
import re
import site
import sys
import sysconfig
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pydantic

from ridgeline.api.application import Application
from ridgeline.api.errors import RidgelineError, did_you_mean, nearest
from ridgeline.api.support.masking import mask
from ridgeline.api.support.tracebacks import last_frames
from ridgeline.cli.errors import CommandError
from ridgeline.cli.output import OutputGoneError, discard, unread
from ridgeline.cli.packages import is_package, unpack_application, unpacked
from ridgeline.cli.settings import COMMAND_OPTIONS
from ridgeline.engine.process.hidden_modules import hidden_by, hint, keep_standard_modules
from ridgeline.plan.spec.form import form_of
from ridgeline.plan.spec.values import APP_PREFIX


class _Parser(argparse.ArgumentParser):
    """Raises CommandError for what it cannot parse."""

    def error(self, message: str) -> NoReturn:
        """Raise it."""
        takes = self.format_usage().partition(self.prog)[2].strip()
        takes = f"it takes `{' '.join(takes.split())}`" if takes else "it takes no options"
        raise CommandError(f"`{self.prog}`: {message}; {takes}")


def application_arguments(
    target: str, function: Callable[..., object], texts: Sequence[str]
) -> dict[str, Any]:
    """Keyword arguments for the function, by its annotations.

    From `--name value`, `--name=value`, `--flag` and `--no-flag`.

    Raises CommandError for options that the function does not take, values that do not fit and required ones
    that are missing.
    """
    parser = _Parser(target, add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    known = [*COMMAND_OPTIONS]
    for name, (kind, default) in _parameters(function).items():
        option, needed = f"--{name.replace('_', '-')}", default is inspect.Parameter.empty
        known.append(option)
        if kind is bool:
            parser.add_argument(option, action=argparse.BooleanOptionalAction, required=needed)
        else:
            read = partial(_convert, option, kind)
            parser.add_argument(option, metavar=name.upper(), type=read, required=needed)
    found, rest = parser.parse_known_args(texts)
    if rest:
        option = rest[0].partition("=")[0]
        close = nearest(option, known)
        parser.error(f"there is no option `{option}`" + (f" (did you mean `{close}`?)" if close else ""))
    return vars(found)


Parameters = Mapping[str, tuple[Any, Any]]
"""Type and default of a function's parameters by name."""


def _parameters(function: Callable[..., object]) -> Parameters:
    """The function's parameters that options can set; a default stands in for a missing annotation."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        hints = {}
    skipped = (
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
        inspect.Parameter.POSITIONAL_ONLY,
    )
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in skipped:
            default = parameter.default
            guess = str if default is None or default is inspect.Parameter.empty else type(default)
            found[name] = (hints.get(name, guess), default)
    return found


def _convert(option: str, kind: Any, text: str) -> object:
    """The text as the annotated type; as it is where pydantic does not know the type."""
    try:
        return pydantic.TypeAdapter(kind).validate_python(text)
    except pydantic.errors.PydanticUserError:
        return text
    except pydantic.ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise CommandError(
            f"`{option}` does not take `{mask(option, text)}`: {problem[0].lower()}{problem[1:]}"
        ) from None


_ALIKE = 0.7
"""From so much likeness on an option may be meant by another one."""
_FUNCTION = "application"
_FORMS = (
    "give a file (`app.py`), a file and a name (`app.py:second`), `module:attribute`, a specification "
    "(`app.yaml`), or a package (`app.whl`)"
)


def load_application(target: str, options: Sequence[str] = ()) -> Application:
    """The application that APP names, made with the options that the command did not know.

    Raises CommandError if there is none or its code fails, and any RidgelineError that its code raises.
    """
    if target.startswith("-"):
        hint = did_you_mean(target, COMMAND_OPTIONS)
        raise CommandError(
            f"unknown option `{target}`; "
            f"{hint if hint.startswith('did') else 'options of the application come after APP'}"
        )
    found = _found(target)
    if isinstance(found, Application):
        if options:
            option = options[0].partition("=")[0]
            known = [one for one in COMMAND_OPTIONS if _is_like(option, one)]
            hint = did_you_mean(option, known)
            only = f"only a function `{_FUNCTION}(...)` takes options, which `{target}` has not"
            raise CommandError(f"unknown option `{option}`; {hint if hint.startswith('did') else only}")
        return found
    return _call(target, found, application_arguments(target, found, options))


def _is_like(option: str, other: str) -> bool:
    """Whether an option may be meant by another one; the dashes of both say nothing."""
    from difflib import SequenceMatcher

    return SequenceMatcher(None, option.lstrip("-"), other.lstrip("-")).ratio() >= _ALIKE


def _found(target: str) -> Any:
    """The application, or the function that makes it."""
    path, name = _split(target)
    if path is not None and is_package(path.name):
        return _packaged(path, name or None)
    if path is None:
        return _import_attribute(target)
    return _specified(path, name) if form_of(path.name) else _find(path, name)


def _packaged(path: Path, name: str | None) -> Any:
    """The object that an entry point of a package names."""
    application, folder = unpack_application(path, name)
    if application.file is not None:
        return _read_specification(folder / application.file)
    where = f"{path}, {application.module}"
    module = _guarded(where, lambda: importlib.import_module(application.module))
    return _attribute(module, application.object, where)


def modules_of(path: Path) -> list[ModuleType]:
    """The module of a Python file, or all of a package; they run. Raises CommandError, PackageError."""
    if not is_package(path.name):
        return [_load_file(path)]
    folder = unpacked(path)
    files = sorted(one.relative_to(folder) for one in folder.rglob("*.py"))
    names = [".".join(one.with_suffix("").parts).removesuffix(".__init__") for one in files]
    return [_guarded(f"{path}, {name}", partial(importlib.import_module, name)) for name in names]


def _specified(path: Path, name: str) -> Application:
    """The application of a specification; modules of its folder are found, as beside an application file."""
    if name:
        raise CommandError(f"`{path}` is a specification, which has one application; leave `:{name}` out")
    return _read_specification(path, on_path=path.resolve().parent)


def _read_specification(path: Path, on_path: Path | None = None) -> Application:
    from ridgeline.plan.specification import read_specification
    from ridgeline.settings.documents import read_with_includes

    document, origins = read_with_includes(path)
    if on_path is not None:
        _put_on_path(on_path)
        find_application_files()
    return read_specification(document, path.stem, os.environ, origins)


def _split(target: str) -> tuple[Path | None, str]:
    """The file and the name in it ("" for none); no file if `target` names a module."""
    if Path(target).is_file():
        return Path(target), ""
    head, colon, name = target.rpartition(":")
    if colon and Path(head).is_file():
        return Path(head), name
    file = Path(head if colon and (head.endswith(".py") or not name.isidentifier()) else target)
    if file.is_dir():
        scripts = ", ".join(f"`{file / script.name}`" for script in sorted(file.glob("*.py"))[:10])
        raise CommandError(
            f"`{target}` is a folder; give one of its files" + (f": {scripts}" if scripts else "")
        )
    if file.suffix == ".py" or "/" in target or form_of(target) is not None or is_package(file.name):
        near = [str(file.with_name(script.name)) for script in file.parent.glob(f"*{file.suffix or '.py'}")]
        raise CommandError(f"there is no file `{file}`; {did_you_mean(str(file), near) if near else _FORMS}")
    if not colon or not head:
        remedy = f"did you mean `{target}.py`?" if Path(f"{target}.py").is_file() else _FORMS
        raise CommandError(f"`{target}` names no application; {remedy}")
    return None, ""


# Files ------------------------------------------------------------------------------------------------------


def _find(path: Path, name: str) -> Any:
    """The object of that name in the file, else its function `application`, else its only Application.

    Raises CommandError for several, or for an Application beside a function that the file only imports.
    """
    module = _load_file(path)
    if name:
        return _attribute(module, name, str(path))
    function = vars(module).get(_FUNCTION)
    found: dict[int, tuple[str, Application]] = {}
    for variable, value in vars(module).items():
        if isinstance(value, Application):
            found.setdefault(id(value), (variable, value))
    choices = ", ".join(f"`{path}:{variable}`" for variable, _ in found.values())
    if callable(function) and not isinstance(function, type):
        if found and getattr(function, "__module__", module.__name__) != module.__name__:
            raise CommandError(
                f"`{path}` has an application and imports a function `{_FUNCTION}`; "
                f"name one of them: {choices}, `{path}:{_FUNCTION}`"
            )
        return function
    if len(found) > 1:
        raise CommandError(f"`{path}` has {len(found)} applications; name one of them: {choices}")
    if not found:
        remedy = (
            f"make one at module level (`app = Application(...)`) or in a function `{_FUNCTION}()` that "
            "returns it"
        )
        raise CommandError(f"`{path}` has no application; {remedy}")
    return next(iter(found.values()))[1]


def _load_file(path: Path) -> ModuleType:
    """Run the file as a module that can be imported by its name: pickles of its classes name it."""
    file = path.resolve()
    _put_on_path(file.parent)
    name = _module_name(file)
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(file):
        return loaded
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise CommandError(f"`{path}` is no Python file; {_FORMS}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        _guarded(str(path), lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _module_name(file: Path) -> str:
    """The file's stem, unless something else has that name."""
    stem = module_stem(file)
    loaded = sys.modules.get(stem)
    if loaded is not None:
        other = getattr(loaded, "__file__", None)
    else:
        other = hidden_by(stem, str(file.parent))
        if other is None:
            try:
                spec = importlib.util.find_spec(stem)
            except (ImportError, ValueError):
                spec = None
            if spec is None:
                return stem
            other = spec.origin
    return stem if other and Path(other).resolve() == file else f"{APP_PREFIX}{stem}"


def _put_on_path(folder: Path) -> None:
    """The folder's modules are found before installed ones, as for a script; Python's own still are."""
    keep_standard_modules(str(folder))
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


# Modules ----------------------------------------------------------------------------------------------------


def _import_attribute(target: str) -> Any:
    """The object that `module:attribute` names. Raises CommandError."""
    module_name, _, attribute = target.rpartition(":")
    _put_on_path(Path.cwd())
    try:
        missing = importlib.util.find_spec(module_name) is None
    except ModuleNotFoundError:
        missing = True
    except Exception as error:  # a parent package that fails
        raise _code_failed(module_name, error) from error
    if missing:
        raise CommandError(
            f"there is no module `{module_name}` in this folder or among what is installed; {_FORMS}"
        )
    return _attribute(
        _guarded(module_name, lambda: importlib.import_module(module_name)), attribute, module_name
    )


def _attribute(module: ModuleType, name: str, where: str) -> Any:
    """An attribute of a loaded module. Raises CommandError with near names."""
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            usable = [
                known
                for known, other in vars(module).items()
                if isinstance(other, Application) or known == _FUNCTION
            ]
            raise CommandError(
                f"`{where}` has no `{name}`; "
                + (did_you_mean(name, usable) if usable else "it has no application either")
            )
        value = getattr(value, part)
    if isinstance(value, Application) or (callable(value) and not isinstance(value, type)):
        return value
    raise CommandError(
        f"`{where}:{name}` is no application; got {type(value).__name__}; name an Application or a "
        "function that returns one"
    )


# The user's code --------------------------------------------------------------------------------------------


def _call(target: str, function: Callable[..., object], arguments: Mapping[str, object]) -> Application:
    made = _guarded(target, lambda: function(**arguments))
    if isinstance(made, Application):
        return made
    raise CommandError(
        f"function `{getattr(function, '__name__', _FUNCTION)}` of `{target}` must return an Application; "
        f"got {type(made).__name__}"
    )


def _guarded(where: str, code: Callable[[], object]) -> Any:
    """Run the user's code; what it raises becomes a CommandError with the end of its traceback."""
    try:
        return code()
    except RidgelineError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, BrokenPipeError) and unread():
            discard(sys.stdout)
            raise OutputGoneError from None
        raise _code_failed(where, error) from error


def _code_failed(where: str, error: BaseException) -> CommandError:
    """The error to raise for an exception of the user's own code, with the lines of that code."""
    if isinstance(error, SyntaxError):
        place = f"line {error.lineno} of `{error.filename}`"
        line = (error.text or "").rstrip("\n")
        caret = " " * max(0, (error.offset or 1) - 1) + "^" if line else ""
        return CommandError(
            f"`{where}` cannot be read: {error.msg}, {place}; fix the file", f"{line}\n{caret}".strip("\n")
        )
    what = f"{type(error).__name__}: {error}"
    remedy = "fix it, then try again"
    if hidden := hint(error):
        remedy = hidden
    elif isinstance(error, ImportError) and "attempted relative import" in str(error):
        remedy = "name it as a module of its package: `ridgeline run package.module:app`"
    elif isinstance(error, SystemExit):
        remedy = 'put what a script does below `if __name__ == "__main__":`'
    elif isinstance(error, ModuleNotFoundError) and error.name:
        remedy = (
            f"install the package that has `{error.name.partition('.')[0]}`, or put its folder on PYTHONPATH"
        )
    return CommandError(f"`{where}` failed while it was loaded: {what}; {remedy}", last_frames(error))


def module_stem(file: Path) -> str:
    """The name of a file as that of a module: other characters become `_`."""
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
