"""Turn each tuple into any number of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic

from pydantic import Field

from ridgeline.api import InputPort, OutputPort, SchemaType
from ridgeline.api.support.results import deferred
from ridgeline.operators._shaped import GivenSchema, Made, T


class FlatMap(GivenSchema, Generic[T, Made]):
    """Turn each tuple into those of `schema` that a function returns or yields, in order: none or more.

    The function may be given by position: `FlatMap(words, schema=Word)`. Partitions: round robin.

    Example:
        >>> from collections.abc import Iterator
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import FlatMap
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Line(NamedTuple):
        ...     text: str
        >>> class Word(NamedTuple):
        ...     word: str
        >>> def split(line: Line) -> Iterator[Word]:
        ...     yield from map(Word, line.text.split())
        >>> app = Application("words")
        >>> lines = app.add_operator("lines", ListInput(Line, [("to be",), ("",), ("or",)]))
        >>> words = app.add_operator("words", FlatMap(split, schema=Word))
        >>> sink = app.add_operator("sink", CollectorSink(Word))
        >>> app.add_stream("lines", lines.output, words.data)
        >>> app.add_stream("words", words.output, sink.input)
        >>> run_local(app).collected("sink")
        [Word(word='to'), Word(word='be'), Word(word='or')]
    """

    data = InputPort[T](Any)
    output = OutputPort[Made](Any)

    function: Callable[[T], Iterable[Made]]
    schema: SchemaType[Made] = Field(kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a function whose call gives no result."""
        rule = deferred(self.function, many=True)
        return [("function", self.function, rule)] if rule else []

    @data.process
    def apply(self, tuple: T) -> None:
        """Emit what the function returns for a tuple."""
        for made in self.function(tuple):
            self.output.emit(made)
