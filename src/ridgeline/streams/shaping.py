"""Steps of streams that give tuples another form: parse, validate, explode, flatten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from pydantic import BaseModel
from typing_extensions import TypeVar

from ridgeline.api import OperatorAttributes, SchemaType
from ridgeline.operators import Explode, Flatten, Parse, Validate
from ridgeline.operators._line_formats import LineFormat
from ridgeline.streams.connecting import Steps

if TYPE_CHECKING:
    from ridgeline.streams.stream import Stream

T_co = TypeVar("T_co", covariant=True, default=Any)
Made = TypeVar("Made", default=Any)
Columns = str | Sequence[str]
"""A column, or several."""


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
        pattern: str | None = None,
        delimiter: str = ",",
        **attributes: Unpack[OperatorAttributes],
    ) -> Checked[Made]:
        """Parse a column of texts into columns, see `Parse`. Texts that do not fit are the stream `bad`."""
        kept = keep if isinstance(keep, str) else tuple(keep)
        operator = Parse(column, format, schema=schema, keep=kept, pattern=pattern, delimiter=delimiter)
        return checked(self._step(name, operator, "input", "output", attributes))

    def validate(
        self, name: str, model: type[BaseModel], **attributes: Unpack[OperatorAttributes]
    ) -> Checked[T_co]:
        """Check tuples by a pydantic model, see `Validate`. Those that it refuses are the stream `bad`."""
        return checked(self._step(name, Validate(model), "input", "output", attributes))

    def explode(
        self, name: str, column: str, *, keep_empty: bool = False, **attributes: Unpack[OperatorAttributes]
    ) -> Stream[Any]:
        """A row for each item of a list; see `Explode`."""
        return self._step(name, Explode(column, keep_empty), "input", "output", attributes)

    def flatten(
        self,
        name: str,
        columns: Columns | None = None,
        *,
        separator: str = "_",
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[Any]:
        """The fields of structs as columns; see `Flatten`."""
        names = columns if columns is None or isinstance(columns, str) else tuple(columns)
        return self._step(name, Flatten(names, separator), "input", "output", attributes)


def checked(stream: Stream[Any]) -> Checked[Any]:
    """The stream of an operator that has a port `bad`."""
    from ridgeline.streams.checked import Checked

    return Checked(stream.app, stream.source)


if TYPE_CHECKING:
    from ridgeline.streams.checked import Checked
