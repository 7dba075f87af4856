"""Inputs whose tuples come by themselves: from a socket, from a client library that calls back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ridgeline.api.operator import InputOperator, has_finished


class PushInput(InputOperator):
    """An input operator that waits for its tuples, often in a thread of its own.

    It lives in one process, from `setup` to `teardown`. The thread puts what comes into a bounded queue and
    calls `wake`. `emit_tuples` takes out what is there and emits it. While no input of the application has
    anything, there are two windows a second, in which `handle_idle_time` is called. `wake` makes the next one
    begin at once.

    After a failure in the application it is torn down and set up again, with its state as of the last commit.
    Tuples that it had emitted since are emitted again only if it asks its source again, or keeps them.

    Example:
        >>> from queue import Empty, Queue
        >>> from threading import Thread
        >>> from typing import NamedTuple
        >>> from ridgeline import Application, OutputPort, PushInput
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Word(NamedTuple):
        ...     text: str
        >>> class Words(PushInput):
        ...     words = OutputPort(Word)
        ...
        ...     def setup(self, context):
        ...         self.queue = Queue(100)
        ...         Thread(target=self.listen, daemon=True).start()
        ...
        ...     def listen(self):
        ...         for word in (Word("one"), Word("two"), None):
        ...             self.queue.put(word)
        ...             self.wake()
        ...
        ...     def emit_tuples(self):
        ...         while not self.queue.empty():
        ...             word = self.queue.get()
        ...             if word is None:
        ...                 self.finish()
        ...             else:
        ...                 self.words.emit(word)
        >>> app = Application("words")
        >>> words = app.add_operator("words", Words())
        >>> sink = app.add_operator("sink", CollectorSink(Word))
        >>> app.add_stream("words", words.words, sink.input)
        >>> run_local(app).collected("sink")
        [Word(text='one'), Word(text='two')]
    """

    window_tuples: ClassVar[int] = 1_000_000
    """A window ends before its width is over once it has so many tuples: this bounds the memory it takes."""

    if TYPE_CHECKING:  # so that an `__init__` of a subclass may pass its properties on

        def __init__(self, *values: Any, **properties: Any) -> None: ...

    def emit_tuples(self) -> None:
        """Emit what is there, and do not wait for more.

        Called again and again in a window, until a call emits nothing, the window's width is over, or it has
        `window_tuples`.
        """
        super().emit_tuples()

    @property
    def has_finished(self) -> bool:
        """True once it has called `finish`."""
        return has_finished(self)

    def wake(self) -> None:
        """Say that there is something to emit: from `setup` on, from any thread. Raises nothing."""
        self.context.wake()
