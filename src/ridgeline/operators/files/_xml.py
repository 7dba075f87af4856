"""The records of an XML file as lines of CSV."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow as pa

from ridgeline.api.columns.nulls import optional_columns
from ridgeline.api.columns.schema import Schema
from ridgeline.operators.files._as_lines import AsLines

_NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"


class XmlFile(AsLines):
    """An XML file: each element of a name is a record. Its attributes and child elements are its fields.

    The first line has the names of the schema, then a line follows for each record. One that is no row
    becomes a line with a field too many, which says why.
    """

    what = "XML"

    def __init__(self, file: Any, schema: Schema, record: str) -> None:
        super().__init__(file)
        self._record = record
        self._begins = [0]
        self._fields = list(schema.arrow)
        self._required = {field.name for field in self._fields} - set(optional_columns(schema))

    def converted(self, data: bytes) -> bytes:
        """The lines. Raises ParseError for a file that is not well-formed."""
        lines = [",".join(_quoted(field.name) for field in self._fields)]
        if data.strip():
            lines += [self._line(number, one) for number, one in enumerate(_elements(data, self._record), 1)]
        encoded = [f"{line}\n".encode() for line in lines]
        self._begins = list(accumulate(map(len, encoded), initial=0))
        return b"".join(encoded)

    def place_of(self, byte: int) -> str:
        """The number of the record: its line is one of CSV, which the file does not have."""
        return f"record {bisect_right(self._begins, byte) - 1}"

    def _line(self, number: int, element: ET.Element) -> str:
        """A record as a line."""
        found: dict[str, str | None] = {_local(name): text for name, text in element.attrib.items()}
        wrong = ""
        names = {field.name for field in self._fields}
        for child in element:
            name = _local(child.tag)
            if name not in names:
                continue
            if name in found:
                wrong = wrong or f"has `{name}` twice"
            if len(child):
                wrong = wrong or f"has elements in `{name}`"
            nil = child.get(_NIL) in {"true", "1"}
            found[name] = None if nil else child.text or ""
        for name in self._required:
            if found.get(name) is None:
                wrong = wrong or f"has no `{name}`"
        if wrong:
            return _quoted(f"record {number} {wrong}") + "," * len(names)
        return ",".join(_cell(field, found.get(field.name)) for field in self._fields)


def _elements(data: bytes, record: str) -> Iterator[ET.Element]:
    """The elements of a name, each forgotten once it was used."""
    parents: list[ET.Element] = []
    for event, element in ET.iterparse(io.BytesIO(data), ("start", "end")):  # noqa: S314  expat limits entities
        if event == "start":
            parents.append(element)
            continue
        parents.pop()
        if _local(element.tag) == record:
            yield element
            if parents:
                parents[-1].remove(element)


def _local(name: object) -> str:
    """A name without its namespace; "" for a comment."""
    return name.rpartition("}")[2] if isinstance(name, str) else ""


def _cell(field: Any, text: str | None) -> str:
    """A value as CSV has it: null is nothing."""
    if text is None:
        return ""
    is_ = pa.types
    if is_.is_string(field.type) or is_.is_large_string(field.type) or is_.is_dictionary(field.type):
        return _quoted(text)
    return _quoted(text.strip()) if text.strip() else ""


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
