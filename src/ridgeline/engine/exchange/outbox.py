"""Messages that wait to be sent to one peer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from ridgeline.engine.exchange.streams import Stream


class Outbox:
    """Pieces of frames on their way to a peer. For several threads.

    Before `open` it only collects; from then on what is put is written at once, as far as the stream takes
    it. `error`: why nothing can be written any more.
    """

    def __init__(self) -> None:
        self.error: OSError | None = None
        self.queued_bytes = 0
        self._pieces: deque[memoryview] = deque()
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._ended = False

    def open(self, stream: Stream) -> None:
        """Write to this stream from now on."""
        with self._lock:
            self._stream = stream
            self._write()

    def put(self, pieces: Sequence[memoryview]) -> bool:
        """Send one frame; False if that cannot be any more. Never blocks."""
        with self._lock:
            if self._ended or self.error is not None:
                return False
            waiting = bool(self._pieces)
            self._pieces.extend(pieces)
            self.queued_bytes += sum(piece.nbytes for piece in pieces)
            # Else the polling thread writes, once the socket takes more.
            if not waiting:
                self._write()
            return True

    def flush(self) -> None:
        """Write more of what waits."""
        with self._lock:
            self._write()

    def end(self) -> None:
        """Take nothing more; what waits may still be flushed."""
        with self._lock:
            self._ended = True

    def drop(self) -> None:
        """Take nothing more, and forget what waits."""
        with self._lock:
            self._ended = True
            self._stream = None
            self._forget()

    def _write(self) -> None:
        """Write until the stream takes no more."""
        if self._stream is None:
            return
        try:
            while self._pieces:
                if not self._written(self._stream.send(self._pieces)):
                    return
        except BlockingIOError:
            pass
        except OSError as error:
            self.error = error
            self._forget()

    def _written(self, count: int) -> bool:
        """Take so many bytes out of the queue; True if no piece was cut."""
        self.queued_bytes -= count
        while count:
            piece = self._pieces.popleft()
            if piece.nbytes > count:
                self._pieces.appendleft(piece[count:])
                return False
            count -= piece.nbytes
        return True

    def _forget(self) -> None:
        self._pieces.clear()
        self.queued_bytes = 0
