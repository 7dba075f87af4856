"""A storage that dies in the middle of a run, as a driver's host does."""

from ridgeline.engine.files.storage import MemoryStorage


class Dying(MemoryStorage):
    """Once it is `armed`, it dies at a file operation that changes something.

    `at`: at which one, from 1 on. `done`: whether that one is done; none after it is.
    """

    def __init__(self, at: int, *, done: bool) -> None:
        super().__init__()
        self.left, self.done, self.armed = at, done, False

    def _step(self) -> bool:
        """True if this operation is the last."""
        if not self.armed:
            return False
        self.left -= 1
        if self.left < 0:
            raise OSError("dead")
        return self.left == 0

    def write(self, name: str, data: bytes) -> None:
        last = self._step()
        if not last or self.done:
            super().write(name, data)
        if last:
            self._step()

    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        last = self._step()
        made = super().create(name, data, settled=settled) if not last or self.done else False
        if last:
            self._step()
        return made
