"""XML elements as columns, and back. Declarations of document types are refused, so nothing is expanded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from ridgeline.api import Schema, SchemaError
from ridgeline.api.columns.casting import is_list, is_text, list_entries, lists_of
from ridgeline.api.columns.nulls import optional_columns, refuse_nulls
from ridgeline.operators._texts import convert, float_of
from ridgeline.operators.shaping._values import value_texts

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_OWN_TEXT = "text"


class Element:
    """An element. Names have no prefix of a namespace."""

    __slots__ = ("attributes", "children", "pieces")

    def __init__(self, attributes: dict[str, str]) -> None:
        self.attributes = {_local(name): value for name, value in attributes.items()}
        self.children: dict[str, list[Element]] = {}
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        """The text between its tags, without that of elements within."""
        return "".join(self.pieces)


def read_element(text: str | bytes) -> Element:
    """The root of a document. Raises ValueError for what is none, and if it declares a document type."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    root = Element({})
    above = [root]

    def begin(name: str, attributes: dict[str, str]) -> None:
        found = Element(attributes)
        above[-1].children.setdefault(_local(name), []).append(found)
        above.append(found)

    def refuse(*_: object) -> None:
        raise ValueError("it declares a document type, which could expand to anything")

    def read(data: str) -> None:
        above[-1].pieces.append(data)

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _name: above.pop()
    parser.CharacterDataHandler = read
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text, True)  # noqa: FBT003  it is the last piece
    except expat.ExpatError as error:
        raise ValueError(f"it is no XML: {error}") from error
    ((found,),) = root.children.values()
    return found


def _local(name: str) -> str:
    return name.rpartition(":")[2]


class XmlParser:
    """Makes a batch of XML documents, a row each.

    A column is the child element of its name, or the attribute. `text` without either is the text of an
    element that has no others in it. A list has all elements of the name, a struct is an element
    with its fields.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._optional = optional_columns(schema)

    def __call__(self, documents: Sequence[str | bytes]) -> pa.RecordBatch:
        """The batch. Raises ValueError, or what Arrow raises, if one does not fit."""
        elements: list[Any] = list(map(read_element, documents))
        arrays = []
        for field in self._schema.arrow:
            try:
                arrays.append(_column(elements, field, optional=field.name in self._optional))
            except (pa.ArrowException, ValueError) as error:
                raise ValueError(f"column `{field.name}`: {error}") from error
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)
        refuse_nulls(self._schema, batch)
        return batch


def _column(elements: Sequence[Element | None], field: pa.Field, *, optional: bool) -> pa.Array:
    """The values that elements have for a field; null of None."""
    if is_list(field.type):
        found = [None if one is None else one.children.get(field.name, []) for one in elements]
        missing = np.array([one is None or (optional and not one) for one in found], np.bool_)
        offsets = np.cumsum([0, *(0 if one is None else len(one) for one in found)], dtype=np.int64)
        items = [item for one in found if one is not None for item in one]
        nulls = pa.array(missing) if missing.any() else None
        return lists_of(_values(items, field.type.value_type), offsets, nulls, field.type)
    return _values([None if one is None else _of(one, field.name) for one in elements], field.type)


def _of(element: Element, name: str) -> Element | str | None:
    """The value of a name. Raises ValueError for several elements of it."""
    found = element.children.get(name)
    if found is None:
        text = element.attributes.get(name)
        if text is None and name == _OWN_TEXT and not element.children:
            return element.text or None
        return text
    if len(found) > 1:
        raise ValueError(f"there are {len(found)} elements `{name}`; read them as a list")
    return found[0]


def _values(found: Sequence[Element | str | None], kind: Any) -> pa.Array:
    """Elements and texts as values of a type. Raises ValueError or an Arrow exception."""
    if pa.types.is_dictionary(kind):
        return _values(found, kind.value_type).cast(kind)
    if pa.types.is_struct(kind):
        if any(isinstance(one, str) for one in found):
            raise ValueError(f"{kind} is an element with others in it; there is an attribute")
        elements: Any = found
        parts = [_column(elements, field, optional=field.nullable) for field in kind]
        missing = pa.array([one is None for one in found], pa.bool_())
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=missing)
    texts = [_text(one, kind) for one in found]
    if is_text(kind):
        return pa.array(texts, kind)
    return _parsed([None if one is None else one.strip() or None for one in texts], kind)


def _parsed(bare: Sequence[str | None], kind: Any) -> pa.Array:
    """Texts without space around them as values of a type. Raises ValueError or an Arrow exception."""
    if pa.types.is_integer(kind):
        return pa.array(bare, pa.string()).cast(kind)
    if pa.types.is_floating(kind):
        return pa.array([None if one is None else float_of(one) for one in bare], pa.float64()).cast(kind)
    if pa.types.is_boolean(kind):
        wrong = next((one for one in bare if one is not None and one not in _TRUTHS), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} is neither true nor false")
        return pa.array([None if one is None else _TRUTHS[one] for one in bare], pa.bool_())
    column = pa.array(bare, pa.string())
    return convert(column.cast(pa.decimal128(38, 9)) if pa.types.is_duration(kind) else column, kind)


def _text(found: Element | str | None, kind: pa.DataType) -> str | None:
    if not isinstance(found, Element):
        return found
    if found.children:
        raise ValueError(f"{kind} is a text, but there is an element `{next(iter(found.children))}` in it")
    return found.text


def check_xml(columns: pa.Schema, *, written: bool) -> None:
    """Raise SchemaError for columns that XML cannot have. `written`: they are written."""
    for field in columns:
        _check(field, written=written)


def _check(field: pa.Field, *, written: bool) -> None:
    """As `check_xml`, of one field at any depth."""
    kind = field.type
    if written and not _NAME.fullmatch(field.name):
        raise SchemaError(f"`{field.name}` is no name of an element; rename the column")
    if is_list(kind):
        inner = kind.value_type
        if is_list(inner):
            raise SchemaError(
                f"`{field.name}` is a list of lists, which XML does not have; put a struct between them"
            )
        _check(pa.field(field.name, inner), written=written)
    elif pa.types.is_struct(kind):
        for part in kind:
            _check(part, written=written)
    elif pa.types.is_nested(kind):
        raise SchemaError(f"`{field.name}` is {kind}, which XML does not have; take a list of structs")


def xml_lines(batch: pa.RecordBatch, root: str) -> list[str]:
    """A document of each row. Raises ValueError for characters that XML does not have."""
    inner = _fragments(batch.schema, batch.columns, len(batch))
    return [f"<{root}>{text}</{root}>" for text in inner]


def _fragments(fields: Sequence[pa.Field], columns: Sequence[pa.Array], count: int) -> list[str]:
    """The elements of each row."""
    if not columns:
        return [""] * count
    found = [_elements(field.name, column) for field, column in zip(fields, columns, strict=True)]
    return ["".join(row) for row in zip(*found, strict=True)]


def _elements(name: str, column: pa.Array) -> list[str]:
    """The element of each value; none of a null, and one for each item of a list."""
    kind = column.type
    if is_list(kind):
        items, bounds = list_entries(column)
        inner, borders = _elements(name, items), np.asarray(bounds).tolist()
        return ["".join(inner[begin:end]) for begin, end in pairwise(borders)]
    if pa.types.is_struct(kind):
        texts: list[str | None] = list(_fragments(list(kind), column.flatten(), len(column)))
        valid = column.is_valid().to_pylist()
    else:
        plain = value_texts(column)
        wrong = next((one for one in plain if one is not None and _ILLEGAL.search(one)), None)
        if wrong is not None:
            raise ValueError(f"column `{name}`: {wrong!r} has a character that XML does not have")
        texts = [None if one is None else one.translate(_ESCAPES) for one in plain]
        valid = [one is not None for one in plain]
    return [f"<{name}>{text}</{name}>" if there else "" for text, there in zip(texts, valid, strict=True)]
