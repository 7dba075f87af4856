"""Java properties: `operators.check.class=payments.Check`, one line for each value of a document.

A value that is JSON is read as JSON (`5`, `true`, `["a", "b"]`, `"a text"`); any other is a text. Which keys
are dotted into which mappings is known only for specifications; see `nested`.
"""

from __future__ import annotations

import json
import re

import javaproperties

from ridgeline.plan.spec.form import Document, FormError

_WITH_NAMES = {"operators": 2, "modules": 2, "streams": 1, "attributes": 0}
"""Sections of a specification, and how many mappings there are inside of each name."""
_WITH_PORTS = {"ports", "unifiers"}
_LONGEST_LINE = 20_000
_JSON = re.compile(r"\s*(?:[-0-9\[{\"]|true\b|false\b|null\b)")


def read_pairs(text: str) -> dict[str, str]:
    """Keys and values of a text of properties. Raises FormError for a key that is there twice."""
    _check_lines(text)
    found: dict[str, str] = {}
    line = 1
    try:
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                if element.key in found:
                    raise FormError(f"the key `{element.key}` is there twice", "keep one of them", line)
                found[element.key] = element.value
            line += max(1, element.source.count("\n"))
    except javaproperties.InvalidUEscapeError as error:
        raise FormError(
            f"`{error.escape}` is no character", "write `\\uXXXX` with four digits", line
        ) from None
    return found


def _check_lines(text: str) -> None:
    """Refuse lines that would take long to read. Raises FormError."""
    length = 0
    for number, line in enumerate(text.split("\n"), 1):
        length += len(line)
        if length > _LONGEST_LINE:
            raise FormError(
                f"a line, with those that continue it, has more than {_LONGEST_LINE:,} characters",
                "write a shorter value",
                number,
            )
        if not line.endswith("\\"):
            length = 0


def read_properties(text: str) -> Document | None:
    """Read properties as a document; those of the guide's form keep their keys, see `guide_form`."""
    pairs = read_pairs(text)
    if not pairs:
        return None
    if any(key.startswith(("apex.", "dt.")) for key in pairs):
        return dict(pairs)
    document: Document = {}
    for key, value in pairs.items():
        _put(document, key, value)
    return document


def _put(document: Document, key: str, text: str) -> None:
    """Put one value where its key says."""
    parts = _parts(key)
    place = document
    for part in parts[:-1]:
        inner = place.setdefault(part, {})
        if not isinstance(inner, dict):
            raise FormError(f"`{key}` is part of `{part}`, which has a value of its own", "give one of them")
        place = inner
    if parts[-1] in place:
        raise FormError(f"`{key}` has a value, and parts with values", "give one of them")
    value = value_of(text)
    if parts[0] == "streams" and parts[-1] == "to" and isinstance(value, str):
        value = [sink.strip() for sink in value.split(",")]
    place[parts[-1]] = value


def _parts(key: str) -> list[str]:
    """`operators.source.properties.options.kafka.topic` has five: what is within a property stays whole."""
    section, *rest = key.split(".", 2)
    if section not in _WITH_NAMES or not rest:
        return [key] if section not in _WITH_NAMES else [section]
    if section == "attributes":
        return [section, ".".join(rest)]
    if len(rest) == 1:
        return [section, rest[0]]
    name, inner = rest
    kind, dot, last = inner.partition(".")
    if not dot or section == "streams":
        return [section, name, inner]
    head, dot, tail = last.partition(".")
    if dot and (kind in _WITH_PORTS or kind == "properties"):
        return [section, name, kind, head, tail]
    return [section, name, kind, last]


def value_of(text: str) -> object:
    """JSON where the text is that, else the text itself.

    >>> value_of("5"), value_of('"5"'), value_of("five"), value_of("[1, 2]"), value_of("NaN")
    (5, '5', 'five', [1, 2], 'NaN')
    """
    if _JSON.match(text) is None:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def text_of(value: object) -> str:
    """The text that `value_of` reads as this value."""
    if isinstance(value, str):
        return json.dumps(value) if value_of(value) != value else value
    return json.dumps(value, allow_nan=False)


def write_properties(document: Document) -> str:
    """The text of a specification as properties."""
    pairs: dict[str, str] = {}
    for section, value in document.items():
        _flatten(pairs, section, value, _WITH_NAMES.get(section, -1))
    return javaproperties.dumps(pairs, timestamp=None, ensure_ascii=False)


def _flatten(pairs: dict[str, str], key: str, value: object, levels: int) -> None:
    """One line for each value that is `levels` mappings inside of the section's names."""
    if levels < 0 or not isinstance(value, dict) or not value:
        pairs[key] = text_of(value)
        return
    for name, part in value.items():
        inner = f"{key}.{name}"
        deeper = levels if name in _WITH_PORTS and key.count(".") == 1 else levels - 1
        _flatten(pairs, inner, part, deeper)
