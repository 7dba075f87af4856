"""The streams of an operator with several output ports, by the ports' names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ridgeline.api.errors import did_you_mean
from ridgeline.streams.connecting import NoStream

if TYPE_CHECKING:
    from ridgeline.streams.stream import Stream


class Pair(NoStream, tuple[Any, Any]):
    """The two streams of `split`, to be taken apart."""

    __slots__ = ()

    no_stream = (
        "`split(...)` is a pair of streams",
        "take them apart: `matching, others = stream.split(...)`, then `matching.{name}(...)`",
    )


class Outputs:
    """The streams of an operator with several outputs: `parts.valid`, `parts["valid"]`.

    Error ports are among them. Raises AttributeError for a name that is no port.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Sampler
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("parts")
        >>> numbers = app.read("numbers", ListInput(Number, [(n,) for n in range(6)]))
        >>> parts = numbers.process("sampler", Sampler(share=0.5))
        >>> sorted(parts)
        ['output', 'rest']
        >>> sink = parts.rest.write("rest", CollectorSink(Number))
        >>> sink = parts.output.write("chosen", CollectorSink(Number))
        >>> run = run_local(app)
        >>> len(run.collected("rest") + run.collected("chosen"))
        6
    """

    def __init__(self, name: str, streams: Mapping[str, Stream[Any]]) -> None:
        self._name = name
        self._streams = dict(streams)

    def __getattr__(self, name: str) -> Stream[Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._streams:
            raise AttributeError(
                f"step `{self._name}` has no output port `{name}`; {did_you_mean(name, self._streams)}"
            )
        return self._streams[name]

    def __getitem__(self, name: str) -> Stream[Any]:
        try:
            return self.__getattr__(name)
        except AttributeError as error:
            raise KeyError(*error.args) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    def __repr__(self) -> str:
        return f"Outputs({self._name}: {', '.join(self._streams)})"
