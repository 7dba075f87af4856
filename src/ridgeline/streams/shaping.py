"""Steps of streams that give tuples another form, or fill gaps in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pydantic import BaseModel

from ridgeline.api import OperatorAttributes, SchemaType
from ridgeline.operators import (
    FillForward,
    Format,
    Parse,
    Validate,
)
from ridgeline.operators._divided import Columns
from ridgeline.operators.parse import LineFormat
from ridgeline.operators.shaping.format import WrittenFormat
from ridgeline.streams.connecting import Made, Steps, T_co
from ridgeline.streams.expressions import split_options

if TYPE_CHECKING:
    from ridgeline.streams.stream import Stream


class ParseOptions(OperatorAttributes, total=False):
    """Properties of `Parse` that `parse` passes on, and attributes of the operator."""

    pattern: str | None
    delimiter: str
    written: str | dict[str, Any] | None
    framed: bool
    registry: str | None


class ShapingSteps(Steps[T_co]):
    """The steps of `Stream` that give tuples another form."""

    def parse(
        self,
        name: str,
        column: str,
        format: LineFormat = "json",
        *,
        schema: SchemaType[Made],
        keep: Columns = (),
        **options: Unpack[ParseOptions],
    ) -> Stream[Made]:
        """Parse a column of texts into columns, see `Parse`. Texts that do not fit are the stream `bad`."""
        own, attributes = split_options(options, ParseOptions)
        operator = Parse(column, format, schema=schema, keep=keep, **own)
        return self._step(name, operator, attributes)

    def format(
        self,
        name: str,
        format: WrittenFormat = "json",
        column: str = "text",
        *,
        columns: Columns | None = None,
        keep: Columns = (),
        delimiter: str = ",",
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[Any]:
        """Write each tuple as a text: the reverse of `parse`; see `Format`."""
        operator = Format(format, column, columns=columns, keep=keep, delimiter=delimiter)
        return self._step(name, operator, attributes)

    def validate(
        self, name: str, model: type[BaseModel], **attributes: Unpack[OperatorAttributes]
    ) -> Stream[T_co]:
        """Check tuples by a pydantic model, see `Validate`. Those that it refuses are the stream `bad`."""
        return self._step(name, Validate(model), attributes)

    def fill_forward(
        self,
        name: str,
        columns: Columns,
        key: Columns | None = None,
        *,
        within: float | str | None = None,
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[T_co]:
        """The last value of a key in the place of nulls; see `FillForward`."""
        return self._step(name, FillForward(columns, key, within), attributes)
