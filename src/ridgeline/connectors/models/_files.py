"""Files of models: read once, as bytes, and known by their SHA-256. Pickles are read only if trusted."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from ridgeline.api.errors import RidgelineError, UntrustedError
from ridgeline.api.support import trust
from ridgeline.api.support.files import is_local, local_path, resolve

ONNX = ".onnx"
PICKLES = (".joblib", ".pkl", ".pickle")
SUFFIXES = (ONNX, *PICKLES)
EXTRA = "install it: `pip install 'ridgeline[models]'`"


@dataclass(frozen=True)
class ModelFile:
    """The content of a file. `name`: without folder and ending, by which people know the model."""

    path: str
    name: str
    content: bytes
    digest: str


def suffix_of(path: str) -> str:
    """The ending of a model's file, in small letters; empty if it has none that is known."""
    found = PurePosixPath(path).suffix.lower()
    return found if found in SUFFIXES else ""


def read_model(path: str) -> ModelFile:
    """Read a file. One that becomes code when it is loaded must be one that no other user could have written.

    Raises RidgelineError for a file that cannot be read, UntrustedError for a pickle that may not be read.
    """
    pickled = suffix_of(path) in PICKLES
    try:
        content = _trusted_content(path) if pickled else _content(path)
    except (OSError, pa.ArrowException) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise RidgelineError(
            f"the model `{path}` cannot be read: {reason}; every host that runs the step must see it there"
        ) from None
    if not content:
        raise RidgelineError(f"the model `{path}` is an empty file; write it again")
    return ModelFile(path, PurePosixPath(path).stem, content, hashlib.sha256(content).hexdigest())


def check_same(before: tuple[str, ...], now: tuple[str, ...], remedy: str) -> None:
    """Raise RidgelineError if a file is not the one of the windows before, under the same name.

    `before`, `now`: its path, what else the user calls it by, and its SHA-256; `before` may be empty.
    """
    if before and before != now and before[:-1] == now[:-1]:
        what = f"the model `{now[0]}` is another file than that of the windows before"
        why = "a window that runs again must have the same model"
        which = f"SHA-256 {before[-1][:12]}..., now {now[-1][:12]}..."
        raise RidgelineError(f"{what} ({which}): {why}; put the old file back, {remedy}")


def _content(path: str) -> bytes:
    filesystem, place = resolve(path)
    with filesystem.open_input_file(place) as file:
        found: bytes = file.read()
    return found


def _trusted_content(path: str) -> bytes:
    """The content of a file on a local disk that only trusted users could have written."""
    purpose = f"the model `{path}`"
    remedy = "give an ONNX file, which holds no code"
    if not is_local(path):
        why = "who may write there cannot be seen, and a pickle is code"
        raise UntrustedError(f"{purpose} is refused: {why}; copy it to a disk of the workers, or {remedy}")
    place = local_path(path)
    trust.check(place, purpose, remedy)
    with open(place, "rb") as file:  # noqa: PTH123  a plain path
        trust.check_found(os.fstat(file.fileno()), place, purpose, remedy)
        return file.read()


def unpickled(file: ModelFile, *, other_versions: bool) -> Any:
    """The object in a file of pickle or joblib.

    `other_versions`: take one that another version of scikit-learn wrote. Raises RidgelineError if it cannot
    be loaded.
    """
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = _loader()(io.BytesIO(file.content))
    except ModuleNotFoundError as error:
        raise RidgelineError(
            f"the model `{file.path}` needs `{error.name}`, which is not installed; install it where it runs"
        ) from error
    except Exception as error:
        what = f"the model `{file.path}` cannot be loaded: {type(error).__name__}: {error}"
        raise RidgelineError(
            f"{what}; it is damaged, or no pickle: write it again by `joblib.dump` or `pickle.dump`"
        ) from error
    others = [one.message for one in warned if one.category.__name__ == "InconsistentVersionWarning"]
    if others and not other_versions:
        raise _other_version(file.path, others[0])
    return found


def _loader() -> Callable[[io.BytesIO], Any]:
    """The function that reads plain pickles, and those of joblib where it is installed."""
    try:
        import joblib
    except ModuleNotFoundError:
        return pickle.load
    found: Callable[[io.BytesIO], Any] = joblib.load
    return found


def _other_version(path: str, found: Any) -> RidgelineError:
    """The error for a pickle of another version, by the warning of scikit-learn."""
    which = f"scikit-learn {found.original_sklearn_version}, and {found.current_sklearn_version} is installed"
    what = f"the model `{path}` was written by {which}: its results may differ, or be wrong"
    remedy = "train it again, install that version, or take the risk with `other_versions=True`"
    return RidgelineError(f"{what}; {remedy}")
