"""Documents in files: how they are read, what they include, and their faults."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from pathlib import Path

from ridgeline.api.errors import Fault, ValidationError
from ridgeline.plan.spec.form import LARGEST_BYTES, Document, Form, FormError, form_of
from ridgeline.plan.spec.guide_form import read_pairs
from ridgeline.plan.spec.texts import decode, read_document

_MOST_FILES = 50
_SECTIONS = ("attributes", "operators", "modules", "streams")
"""Sections of which an including file may replace a part."""


def read_file(path: Path, *, pairs: bool = False) -> Document:
    """The document of a file, in the form that its suffix names. Raises ValidationError.

    `pairs`: of properties, keys and texts are returned as they are.
    """
    form = form_of(path.name)
    if form is None:
        forms = ", ".join(f"`.{one.value}`" for one in Form)
        raise _error(path, None, "the file's suffix names no form", f"name it {forms}")
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise _error(
            path, None, f"the file cannot be read: {error.strerror or error}", "name a file that you may read"
        ) from None
    if len(data) > LARGEST_BYTES:
        raise _error(
            path,
            None,
            f"the file has more than {LARGEST_BYTES:,} bytes, the most that is read",
            "split it, or make the application in Python",
        )
    try:
        text = decode(data)
        return dict(read_pairs(text)) if pairs and form is Form.PROPERTIES else read_document(text, form)
    except FormError as error:
        raise _error(path, error.line, error.what, error.remedy) from None


def read_with_includes(path: Path) -> tuple[Document, dict[str, str]]:
    """The document of a specification, with all that it includes, and the files of what was included.

    The files are by section and name: `operators.sum`, or a key of the document.

    What the including file says wins over what is included, and a later include over an earlier one. Single
    values are replaced, and each operator, module, stream and attribute as a whole. Raises ValidationError.
    """
    read = list(_Including().read(path, ()))
    origins: dict[str, str] = {}
    for file, document in read:
        for part in _parts(document):
            origins[part] = str(file)
            if file == path:
                del origins[part]
    return reduce(_merged, (document for _, document in read)), origins


def read_included_first(path: Path) -> list[tuple[Path, Document]]:
    """A configuration file and all that it includes, each after what it includes. Raises ValidationError."""
    return list(_Including(pairs=True).read(path, ()))


class _Including:
    """Reads a file and what it includes; each file at most as often as the whole may have files."""

    def __init__(self, *, pairs: bool = False) -> None:
        self._count = 0
        self._pairs = pairs

    def read(self, path: Path, outer: tuple[Path, ...]) -> Iterator[tuple[Path, Document]]:
        """The documents of a file that `outer` include, one in the other. Raises ValidationError."""
        real = path.resolve()
        if real in outer:
            circle = " includes ".join(f"`{one.name}`" for one in (*outer[outer.index(real) :], real))
            raise _error(path, None, f"the file includes itself: {circle}", "take one `include` out")
        self._count += 1
        if self._count > _MOST_FILES:
            raise _error(path, None, f"more than {_MOST_FILES} files are included", "put them together")
        document = read_file(path, pairs=self._pairs)
        for name in _names(path, document.pop("include", [])):
            yield from self.read(real.parent / name, (*outer, real))
        yield path, document


def _names(path: Path, given: object) -> Iterator[str]:
    names = given if isinstance(given, list) else [given]
    for name in names:
        if not isinstance(name, str) or not name:
            raise _error(
                path, None, "`include` is no file or list of files", "write `include: [common.yaml]`"
            )
        yield name


def _merged(below: Document, above: Document) -> Document:
    """Two documents; the second one wins."""
    found = {**below, **above}
    for section in _SECTIONS:
        first, second = below.get(section), above.get(section)
        if isinstance(first, dict) and isinstance(second, dict):
            found[section] = {**first, **second}
        elif section in below and section in above and isinstance(first, list) and isinstance(second, list):
            found[section] = [*first, *second]
    return found


def _parts(document: Document) -> Iterator[str]:
    """The parts of a document that an including one replaces: `operators.sum`, `window`."""
    for section, inside in document.items():
        if section not in _SECTIONS:
            yield section
        elif isinstance(inside, dict):
            yield from (f"{section}.{name}" for name in inside)
        elif isinstance(inside, list):
            yield from (
                f"{section}.{one['name']}" for one in inside if isinstance(one, dict) and "name" in one
            )


def _error(path: Path, line: int | None, what: str, remedy: str) -> ValidationError:
    where = str(path) if line is None else f"{path}:{line}"
    return ValidationError(path.stem, [Fault(where, what, remedy)])
