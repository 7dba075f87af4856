"""Documents from texts and back, in the four forms."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence

import tomli_w

from ridgeline.plan.spec.form import Document, Form, FormError, check_tree, too_deep
from ridgeline.plan.spec.properties_form import read_properties, write_properties
from ridgeline.plan.spec.yaml_form import read_yaml, write_yaml

_MOST_PARTS = 32
_TOML_KEY = re.compile(
    r"(?<![\w-])(?:(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')[ \t]*+\.[ \t]*+){"
    rf"{_MOST_PARTS}}}"
)
"""A dotted key of many parts, on which tomllib takes long."""


def decode(data: bytes) -> str:
    """The text of a file, in UTF-8 with or without a byte order mark. Raises FormError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormError(
            f"byte {data[error.start]:#04x} is no UTF-8", "save the file as UTF-8", line
        ) from None
    return text.replace("\r\n", "\n")


def read_document(text: str, form: Form) -> Document:
    """Read a text as a mapping of plain values. Raises FormError, with the line where it is known."""
    found = _READERS[form](text)
    if found is None:
        raise FormError("the file is empty", "write an application, or a configuration, into it")
    if not isinstance(found, dict):
        kind = "a list" if isinstance(found, list) else "a single value"
        raise FormError(f"the document is {kind}", "begin with a mapping: `application: ...`")
    check_tree(found)
    return found


def write_document(document: Document, form: Form) -> str:
    """The text of a document. It must hold plain values only; TOML and properties: no None."""
    if form is Form.JSON:
        return json.dumps(document, indent=2, allow_nan=False) + "\n"
    if form is Form.YAML:
        return write_yaml(document)
    return tomli_w.dumps(document) if form is Form.TOML else write_properties(document)


def _read_json(text: str) -> object:
    """One JSON value; None for an empty text. Raises FormError."""
    if not text.strip():
        return None
    try:
        return json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise FormError(
            f"this is no JSON: {error.msg[0].lower()}{error.msg[1:]}, column {error.colno}",
            "mend the line",
            error.lineno,
        ) from None
    except RecursionError:
        raise too_deep() from None
    except _TwiceError as error:
        key = error.args[0]
        raise FormError(
            f"the key `{key}` is there twice in one object",
            "keep one of them",
            _line_of(text, json.dumps(key), 2),
        ) from None
    except _ConstantError as error:
        name = error.args[0]
        raise FormError(
            f"`{name}` is no number of JSON", "give a finite number, or a text", _line_of(text, name, 1)
        ) from None
    except ValueError as error:  # a number with more digits than Python reads
        raise FormError(f"this is no JSON: {error}", "give a shorter number, or a text") from None


class _TwiceError(Exception):
    """A key that is there twice."""


class _ConstantError(Exception):
    """`NaN`, `Infinity`."""


def _pairs(pairs: Sequence[tuple[str, object]]) -> Document:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _TwiceError(key)
            seen.add(key)
    return found


def _no_constant(name: str) -> object:
    raise _ConstantError(name)


def _line_of(text: str, part: str, occurrence: int) -> int | None:
    """The line of the n-th occurrence, if there are no more: otherwise it might be another one."""
    if text.count(part) != occurrence:
        return None
    return text.count("\n", 0, text.rindex(part)) + 1


def _read_toml(text: str) -> object:
    """A TOML table; None for an empty text. Raises FormError."""
    if found := _TOML_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise FormError(f"a key has more than {_MOST_PARTS} parts", "give a shorter one", line)
    try:
        return tomllib.loads(text) if text.strip() else None
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        number = re.match(r"line (\d+)", place)
        at = int(number[1]) if number is not None else None
        raise FormError(f"this is no TOML: {what[0].lower()}{what[1:]}", "mend the line", at) from None
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:  # a date that is none, a number with too many digits
        raise FormError(f"this is no TOML: {error}", "mend the value") from None


_READERS = {
    Form.JSON: _read_json,
    Form.YAML: read_yaml,
    Form.TOML: _read_toml,
    Form.PROPERTIES: read_properties,
}
