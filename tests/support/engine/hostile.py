"""An operator that fails in every way that Python has, when it meets the number 13."""

import base64
import ctypes
import os
import pickle
import re
import signal
import sys
import threading
from pathlib import Path

from support.engine.applications import InputPort, Number, Sum, sum_application

BAD = 13
"""In window 1, where windows have ten numbers."""


class Leave(BaseException):
    """Not an Exception."""


class MuteError(Exception):
    """Cannot be shown."""

    def __str__(self):
        raise RuntimeError("no words")


class NamelessError(Exception):
    """Shown as what is no text."""

    def __str__(self):
        return 7  # noqa: PLE0307  that is the point


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def touching(folder):
    return pickle.dumps(Touch(f"{folder}/code-was-run"), 5)


def recurse(depth=0):
    return recurse(depth + 1)


def frozen():
    """Holds Python's lock for ever: no other thread of the worker runs."""
    re.match("(a+)+$", "a" * 60 + "b")


def raise_it(error):
    raise error


KINDS = {
    "huge": lambda _folder: raise_it(ValueError("x" * 50_000_000)),
    "exit": lambda _folder: sys.exit(3),
    "leave": lambda _folder: raise_it(Leave("as it likes")),
    "interrupt": lambda _folder: raise_it(KeyboardInterrupt()),
    "mute": lambda _folder: raise_it(MuteError()),
    "nameless": lambda _folder: raise_it(NamelessError()),
    "recursion": lambda _folder: recurse(),
    "surrogate": lambda _folder: raise_it(ValueError("half a pair: \ud800")),
    "_exit": lambda _folder: os._exit(3),
    "segfault": lambda _folder: ctypes.string_at(0),
    "killed": lambda _folder: os.kill(os.getpid(), signal.SIGKILL),
    "stopped": lambda _folder: os.kill(os.getpid(), signal.SIGSTOP),
    "frozen": lambda _folder: frozen(),
    "endless": lambda _folder: threading.Event().wait(),
    "pickle": lambda folder: raise_it(
        ValueError(f"ridgeline-failure:{base64.b85encode(touching(folder)).decode()}\n")
    ),
}


class Hostile(Sum):
    """Counts in `folder` how often it meets `BAD`; fails as `kind` says for the first `failures` times."""

    kind: str
    folder: str
    failures: int = 1_000_000

    def meet(self, number):
        if number.value == BAD:
            notes = Path(self.folder, "notes")
            notes.mkdir(exist_ok=True)
            count = len(list(notes.iterdir()))
            (notes / f"{count}-{os.getpid()}").touch()
            if count < self.failures:
                KINDS[self.kind](self.folder)
        self.total += number.value

    numbers = InputPort(Number)
    numbers.process(meet)


def notes(folder):
    """How often the operator met the number, and in which process: ids in order."""
    return [
        int(note.name.partition("-")[2])
        for note in sorted(Path(folder, "notes").iterdir(), key=lambda note: int(note.name.partition("-")[0]))
    ]


def hostile_application(kind, folder, *, failures=1_000_000, **attributes):
    """Numbers, their hostile running sum in a container of its own, a sink; three windows."""
    return sum_application(Hostile(kind=kind, folder=str(folder), failures=failures), count=30, **attributes)
