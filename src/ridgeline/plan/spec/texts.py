"""Documents from texts in the three forms, and as JSON and YAML; YAML is read from its events, as plain data.

Plain scalars of YAML are read by the core schema of 1.2: `no`, `on` and `1:30` are texts. Keys are texts.
Tags, merge keys and several documents are refused; aliases are read as often as they stand there, up to a
limit.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from ridgeline.plan.spec.form import DEEPEST, Document, Form, FormError, check_tree, too_deep
from ridgeline.plan.spec.guide_form import read_pairs

_NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_INT = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NO_NUMBER = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")
_LONGEST_NUMBER = 400
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str) -> object:
    """Read one YAML document as plain data. Raises FormError."""
    try:
        return _Reader(yaml.parse(text, Loader=_PARSER)).read()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else None
        raise FormError(f"this is no YAML: {error.problem}", "fix the line", line) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = f"\\u{ord(str(error.character)[:1] or chr(0)):04x}"
        what = f"this is no YAML: {error.reason} (`{code}`)"
        raise FormError(what, "remove the character", line) from None
    except yaml.YAMLError as error:
        raise FormError(f"this is no YAML: {error}", "fix the file") from None


class _Reader:
    """Makes values of events. What an alias stands for is the same object again: see `check_tree`."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._anchors: dict[str, object] = {}

    def read(self) -> object:
        """The only document; an empty text is None."""
        document: object = None
        seen = False
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if seen:
                    raise _error(event, "a second document begins here", "keep one document in a file")
                seen = True
                document = self._value(next(self._events), 0)
        return document

    def _value(self, event: Any, depth: int) -> object:
        """The value that begins with this event."""
        if depth > DEEPEST:
            raise too_deep()
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise _error(
                    event,
                    f"`*{event.anchor}` stands for nothing, or for what it is part of",
                    f"put `&{event.anchor}` before it",
                )
            return self._anchors[event.anchor]
        if event.tag is not None:
            raise _error(event, f"the tag `{event.tag}` is not read", "leave it out: values are plain data")
        value: object
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = [self._value(one, depth + 1) for one in self._until(yaml.SequenceEndEvent)]
        else:
            value = self._mapping(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _until(self, end: type) -> Iterator[Any]:
        """The events up to one that ends what they are in; those of values inside are taken meanwhile."""
        return itertools.takewhile(lambda event: not isinstance(event, end), self._events)

    def _mapping(self, depth: int) -> Document:
        """The mapping up to its end."""
        found: Document = {}
        for event in self._until(yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise _error(event, "a key is no text", "write a text before the colon")
            key = event.value
            if key == "<<" and event.implicit[0]:
                raise _error(event, "merge keys (`<<`) are not read", "write the keys out, or use `include`")
            if key in found:
                raise _error(event, f"the key `{key}` is there twice", "keep one of them")
            found[key] = self._value(next(self._events), depth + 1)
        return found


def _scalar(event: Any) -> object:  # noqa: PLR0911  a case each
    """A plain scalar by the core schema; one in quotes is a text."""
    text: str = event.value
    if not event.implicit[0]:
        return text
    if _NULL.match(text):
        return None
    if _BOOL.match(text):
        return text.lower() == "true"
    if _NO_NUMBER.match(text):
        raise _error(event, f"`{text}` is no number", "give a finite number, or a text in quotes")
    number = _INT.match(text) or _BASED.match(text) or _FLOAT.match(text)
    if number is not None and len(text) > _LONGEST_NUMBER:
        raise _error(event, f"a number of {len(text):,} digits", "give a shorter one, or a text in quotes")
    if _INT.match(text):
        return int(text)
    if _BASED.match(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    if number is None:
        return text
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _error(event, f"`{text}` is too great for a number", "give a smaller one, or a text in quotes")
    return value


def _error(event: Any, what: str, remedy: str) -> FormError:
    return FormError(what, remedy, event.start_mark.line + 1)


class _Dumper(yaml.SafeDumper):
    """Writes in quotes what a reader, of YAML 1.1 or 1.2, would not take for a text."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write everything out."""
        return True


for _tag, _pattern in (
    ("int", _BASED),
    ("float", _FLOAT),
    ("bool", re.compile(r"[yn]\Z", re.IGNORECASE)),
):
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, None)


def _text(dumper: _Dumper, text: str) -> Any:
    """In double quotes, with escapes, what PyYAML would write as a line break or cannot write."""
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def write_yaml(document: Document) -> str:
    """The document as YAML."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def decode(data: bytes) -> str:
    """The text of a file, in UTF-8 with or without a byte order mark. Raises FormError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"byte {data[error.start]:#04x} is no UTF-8"
        raise FormError(what, "save the file as UTF-8", line) from None
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
    """The text of a document of plain values, as JSON or YAML."""
    return (
        json.dumps(document, indent=2, allow_nan=False) + "\n" if form is Form.JSON else write_yaml(document)
    )


def _read_json(text: str) -> object:
    """One JSON value; None for an empty text. Raises FormError."""
    if not text.strip():
        return None

    def pairs(found: Sequence[tuple[str, object]]) -> Document:
        values = dict(found)
        if len(values) < len(found):
            key = Counter(key for key, _ in found).most_common(1)[0][0]
            line = _line_of(text, json.dumps(key), 2)
            raise FormError(f"the key `{key}` is there twice in one object", "keep one of them", line)
        return values

    def constant(name: str) -> object:
        line = _line_of(text, name, 1)
        raise FormError(f"`{name}` is no number of JSON", "give a finite number, or a text", line)

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        what = f"this is no JSON: {error.msg[0].lower()}{error.msg[1:]}, column {error.colno}"
        raise FormError(what, "fix the line", error.lineno) from None
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:  # a number with more digits than Python reads
        raise FormError(f"this is no JSON: {error}", "give a shorter number, or a text") from None


def _line_of(text: str, part: str, occurrence: int) -> int | None:
    """The line of the n-th occurrence, if there are no more: otherwise it might be another one."""
    if text.count(part) != occurrence:
        return None
    return text.count("\n", 0, text.rindex(part)) + 1


def _read_properties(text: str) -> object:
    """Keys and values of properties; None for none. Raises FormError."""
    return read_pairs(text) or None


_READERS = {
    Form.JSON: _read_json,
    Form.YAML: read_yaml,
    Form.PROPERTIES: _read_properties,
}
