"""The tokens file: read again when it changes, and written by `ridgeline token`."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust
from ridgeline.service.access.rules import Rule, Rules, read_rules

LOOK_SECONDS = 0.5
"""Seconds between two looks at the file, while requests come."""
_LARGEST = 20_000_000
_TRIES = 5
HEAD = "# Who may do what with applications of Ridgeline: `ridgeline token add` adds a line.\n"
_REMEDY = "give another `--tokens`"
_State = tuple[int, ...]


class RulesFile:
    """The rules of a file, which is read again when it changes. Thread-safe.

    A version that is broken, that others could have written, or that is gone, is reported once and changes
    nothing: the rules of before stay. So is one that may have been cut. `say`: called with the text.

    Raises RidgelineError if the first version cannot be read.
    """

    def __init__(self, path: str, say: Callable[[str], None], clock: Clock | None = None) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100  links on the way are checked, not resolved
        self._say = say
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._looked = self._clock.monotonic()
        self._seen = _state(self.path)
        self._rules = read_rules_file(self.path)

    @property
    def rules(self) -> Rules:
        """The rules as of now, or of `LOOK_SECONDS` ago."""
        now = self._clock.monotonic()
        if now - self._looked >= LOOK_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._looked = now
                self._lock.release()
        return self._rules

    def _look(self) -> None:
        """Read the file again if it is another version; a broken one is reported and left out."""
        state = _state(self.path)
        if state == self._seen:
            return
        self._seen = state  # before the reading: a later change is seen the next time
        try:
            found = read_rules_file(self.path)
        except RidgelineError as error:
            self._say(f"the tokens of before still count: {error}")
            return
        self._rules = found
        self._say(f"`{self.path}` was read again: {len(found.rules):,} lines")


def _state(path: str) -> _State:
    """The marks by which versions of a file differ; empty: it cannot be seen."""
    try:
        return _version(os.stat(path))  # noqa: PTH116  as `trust` does
    except OSError:
        return ()


def _version(found: os.stat_result) -> _State:
    return (
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_uid,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def read_rules_file(path: str) -> Rules:
    """The rules of a file that its owner alone can read and write. Raises RidgelineError."""
    try:
        return read_rules(_text(path))
    except FileNotFoundError:
        raise RidgelineError(
            f"there is no file `{path}`; `ridgeline token add NAME --role ROLE --file {path}` makes it"
        ) from None
    except OSError as error:
        raise RidgelineError(
            f"the tokens file `{path}` cannot be read: {error.strerror}; {_REMEDY}"
        ) from None
    except ValueError as error:
        raise RidgelineError(f"the tokens file `{path}` is broken, {error}") from None


def _text(path: str) -> str:
    """The text of a file of which no part changes while it is read. Raises RidgelineError, OSError."""
    purpose = f"the tokens file `{path}`"
    for _ in range(_TRIES):
        trust.check(path, purpose, _REMEDY)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not block
        with os.fdopen(descriptor, "rb") as file:
            before = os.fstat(descriptor)
            trust.check_found(before, path, purpose, _REMEDY)  # of what was opened, not of the path
            _check_form(before, path)
            data = file.read(_LARGEST + 1)
            if _version(before) == _version(os.fstat(descriptor)):
                break
    else:
        raise RidgelineError(f"{purpose} changes while it is read; it is read again later")
    if len(data) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST:,} bytes")
    if data.strip() and not data.endswith(b"\n"):  # a cut line may have lost its limits
        raise ValueError(
            "its last line has no newline, so it may have been cut while it was written; check that line, "
            f"and end it with `echo >> {path}`"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None


def _check_form(found: os.stat_result, path: str) -> None:
    """Raise RidgelineError for what is no file, or can be read by others."""
    if not stat.S_ISREG(found.st_mode):
        raise RidgelineError(f"`{path}` is no file; {_REMEDY}")
    if stat.S_IMODE(found.st_mode) & 0o077 and not trust.is_exempt(path):
        mode = stat.S_IMODE(found.st_mode)
        raise RidgelineError(
            f"the tokens file `{path}` can be read by others (mode {mode:04o}); run `chmod 600 {path}`"
        )


# Writing ----------------------------------------------------------------------------------------------------


def new_token() -> str:
    """A token of 256 random bits; its beginning says that it is one."""
    return f"ridgeline_{secrets.token_urlsafe(32)}"


def add_rule(path: str, rule: Rule) -> None:
    """Add a line. Raises RidgelineError, also if the name is there already."""
    with _changing(path) as lines:
        if rule.digest and any(one.subject == rule.subject for one in _rules_in(lines)):
            raise RidgelineError(
                f"`{path}` has a token `{rule.subject}` already; "
                f"run `ridgeline token remove {rule.subject} --file {path}` first, or use another name"
            )
        lines.append(rule.line())


def remove_rules(path: str, subject: str) -> int:
    """Remove the lines of a subject; how many there were. Raises RidgelineError."""
    with _changing(path, must_exist=True) as lines:
        kept = [line for line in lines if not any(one.subject == subject for one in _rules_in([line]))]
        removed = len(lines) - len(kept)
        lines[:] = kept
    return removed


def _rules_in(lines: list[str]) -> tuple[Rule, ...]:
    return read_rules("\n".join(["#", *lines])).rules


def token_rule(name: str, token: str, rule: Rule) -> Rule:
    """The rule of a token, of which only the hash is kept."""
    return Rule(name, rule.role, hashlib.sha256(token.encode()).digest(), rule.applications, rule.expires)


@contextlib.contextmanager
def _changing(path: str, *, must_exist: bool = False) -> Iterator[list[str]]:
    """The lines of a file, which are written back as a whole. Two commands at once change it one by one."""
    target = os.path.realpath(path)  # a link stays one
    try:
        with _locked(target):
            if must_exist or Path(target).exists():
                read_rules_file(target)  # a broken file is not written over
                lines = _text(target).rstrip("\n").split("\n")
            else:
                trust.check(str(Path(target).parent), f"the tokens file `{path}`", "give another `--file`")
                lines = HEAD.rstrip("\n").split("\n")
            before = list(lines)
            yield lines
            if lines != before:
                _replace(target, "\n".join(lines) + "\n")
    except OSError as error:
        raise RidgelineError(
            f"the tokens file `{path}` cannot be written: {error.strerror}; give another `--file`"
        ) from None


@contextlib.contextmanager
def _locked(target: str) -> Iterator[None]:
    """The lock on the folder of a file: the file itself is replaced."""
    descriptor = os.open(Path(target).parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(target: str, text: str) -> None:
    """Write a file at once: readers see the version before or this one."""
    descriptor, temporary = tempfile.mkstemp(prefix=".tokens-", dir=Path(target).parent)  # 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        Path(temporary).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
