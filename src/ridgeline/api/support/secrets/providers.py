"""Secrets that a text names and does not hold: `env:NAME`, `file:PATH`, `command:WORDS`.

They are read in the process that uses them, when it does. A plan has the text alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pydantic

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import hide
from ridgeline.api.support.secret_names import is_secret

COMMAND = "command:"
COMMAND_SECONDS = 10.0
"""How long a command may take."""
KEPT_SECONDS = 300.0
"""How long its answer is used. Variables and files are read each time."""
_LONGEST = 65_536
_PROVIDERS = re.compile(r"(env|file|command):(.+)", re.DOTALL)
_CERTAIN = re.compile(r"env:[A-Za-z_]\w*|file:/(?!/).*|command:\s*\S.*", re.DOTALL)


def names_provider(text: object) -> bool:
    """True for a text that can be nothing but the name of a secret's place.

    >>> [names_provider(text) for text in ("env:KEY", "file:/run/key", "command:vault read x", "file:x.db")]
    [True, True, True, False]
    """
    return isinstance(text, str) and _CERTAIN.fullmatch(text) is not None


def provided(text: str, what: str) -> str:
    """The secret that a text names; another text is the secret itself.

    `what`: the property or option, for errors. Blocks while a command runs, 10 s at most.
    Raises RidgelineError with `what` and the provider if it is not there; its text holds no secret.
    """
    found = _PROVIDERS.fullmatch(text)
    if found is None:
        return text
    kind, name = found.groups()
    if kind == "env":
        value = _of_environment(name, what)
    elif kind == "file":
        value = _of_file(name, what)
    else:
        value = _COMMANDS.value(name, what)
    hide(value)
    return value


def provided_option(text: str | None, option: str) -> str | None:
    """The value of an option that is a secret, such as `--token`.

    Raises RidgelineError as `provided`, and if the place is empty or holds more than one line. No header
    could carry that, and its error would show it.
    """
    if text is None or not names_provider(text):
        return text
    value = provided(text, option)
    if not value.strip() or not value.isprintable():
        fault = "is not one line of readable characters" if value.strip() else "is empty"
        raise RidgelineError(
            f"`{option}`: what `{text.partition(':')[0]}:` names {fault}; put the token there, and no more"
        )
    return value


def provided_settings(settings: dict[str, str]) -> dict[str, str]:
    """Settings of Spark with the values of those secrets that name their place.

    Only settings whose name is a secret's are looked at: `spark.hadoop.fs.s3a.secret.key=env:KEY`.
    Raises RidgelineError as `provided`.
    """
    return {
        name: provided(value, name) if is_secret(name) and names_provider(value) else value
        for name, value in settings.items()
    }


def forget_secrets() -> bool:
    """Let commands run again for the next use of their secrets, as after a login that was refused.

    False if no command was asked before: then nothing can be different.

    Example:
        >>> from ridgeline.connect import forget_secrets, secret_value
        >>> secret_value("command:echo x", "password"), forget_secrets()
        ('x', True)
    """
    return _COMMANDS.forget()


def named_by_command(value: object) -> bool:
    """True if a value, or a part of it, names a command; also in JSON, as `-D` takes it."""
    if isinstance(value, dict):
        return any(map(named_by_command, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(named_by_command, value))
    if isinstance(value, (pydantic.SecretStr, pydantic.SecretBytes)):
        return named_by_command(text_of(value))
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        return False
    return text.lstrip().startswith(COMMAND) or named_by_command(decoded_json(text))


def decoded_json(text: str) -> object:
    """The list, dictionary or text that a text is in JSON; None for none."""
    if text.lstrip()[:1] not in {"{", "[", '"'}:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class _Provided:
    """A secret in a property, which names its place, `what`, and is read there each time."""

    _secret_value: Any

    def __init__(self, named: Any, what: str) -> None:
        of_pydantic: Any = super()
        of_pydantic.__init__(named)
        self.what = what

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and text_of(other) == self._secret_value

    def __hash__(self) -> int:
        return hash(self._secret_value)


class ProvidedStr(_Provided, pydantic.SecretStr):
    """A text."""

    def get_secret_value(self) -> str:
        """The secret. Raises RidgelineError if it is not there."""
        return provided(self._secret_value, self.what)


class ProvidedBytes(_Provided, pydantic.SecretBytes):
    """The secret's text in UTF-8."""

    def get_secret_value(self) -> bytes:
        """The secret. Raises RidgelineError if it is not there."""
        return provided(self._secret_value.decode(), self.what).encode()


def text_of(secret: Any) -> Any:
    """The text that a secret of pydantic holds: for one that names its place that name, which is not read."""
    return vars(secret)["_secret_value"]


def with_providers(value: Any, what: str) -> Any:
    """The value of a property whose secrets read their place, where they name one.

    Values without such secrets are returned as they are.
    """
    if type(value) is pydantic.SecretStr:
        text = value.get_secret_value()
        return ProvidedStr(text, what) if names_provider(text) else value
    if type(value) is pydantic.SecretBytes:
        data = value.get_secret_value()
        return ProvidedBytes(data, what) if names_provider(data.decode(errors="replace")) else value
    if type(value) is dict:
        made = {key: with_providers(part, f"{what}.{key}") for key, part in value.items()}
        return made if any(made[key] is not value[key] for key in made) else value
    if type(value) in {list, tuple}:
        parts = [with_providers(part, what) for part in value]
        same = all(new is old for new, old in zip(parts, value, strict=True))
        return value if same else type(value)(parts)
    return value


class _Commands:
    """The answers of commands, for a while. Thread-safe; one command at a time."""

    def __init__(self) -> None:
        self._now = SystemClock().monotonic
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, str]] = {}

    def forget(self) -> bool:
        """Run each again when it is asked next; whether there is one."""
        with self._lock:
            known = bool(self._kept)
            self._kept.clear()
            return known

    def value(self, words: str, what: str) -> str:
        """The answer of a command. Raises RidgelineError."""
        with self._lock:
            until, value = self._kept.get(words, (0.0, ""))
            if self._now() >= until:
                value = _of_command(words, what)
                self._kept[words] = self._now() + KEPT_SECONDS, value
            return value


_COMMANDS = _Commands()


def _of_environment(name: str, what: str) -> str:
    if name not in os.environ:
        raise RidgelineError(
            f"`{what}`: environment variable `{name}` is not set; set it where this process starts"
        )
    return os.environ[name]


def _of_file(name: str, what: str) -> str:
    """The text of a file without its last end of line. Raises RidgelineError, which shows nothing of it."""
    try:
        with Path(name).expanduser().open("rb") as file:
            text = file.read(_LONGEST + 1).decode()
    except (OSError, ValueError) as error:
        raise RidgelineError(
            f"`{what}`: file `{name}` cannot be read ({type(error).__name__}); check its path and rights"
        ) from None
    if len(text) > _LONGEST:
        raise RidgelineError(
            f"`{what}`: file `{name}` has more than {_LONGEST:,} bytes, so it is no secret; check its path"
        )
    return text.removesuffix("\n").removesuffix("\r")


def _of_command(words: str, what: str) -> str:
    """The one line that a command prints. Raises RidgelineError."""
    try:
        argv = shlex.split(words)
    except ValueError as error:
        raise RidgelineError(f"`{what}`: its command cannot be read: {error}; close the quotes") from None
    name = argv[0] if argv else ""
    try:
        process = subprocess.Popen(  # noqa: S603  the author's, without a shell
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it could hold the secret
            start_new_session=True,
        )
    except (OSError, ValueError, IndexError) as error:
        why = getattr(error, "strerror", None) or "it is none"
        raise RidgelineError(
            f"`{what}`: command `{name}` cannot be started: {why}; check its path and rights"
        ) from None
    late: list[bool] = []

    def end(*because: bool) -> None:
        late.extend(because)
        with contextlib.suppress(OSError):  # what it has started, too
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(COMMAND_SECONDS, end, (True,))
    fault, output = "", b""
    assert process.stdout is not None  # noqa: S101  for the type
    try:
        timer.start()
        output = process.stdout.read(_LONGEST + 1)
        if len(output) > _LONGEST:
            fault = f"printed more than {_LONGEST:,} bytes"
        elif process.wait():
            fault = f"failed with exit code {process.returncode}"
    finally:
        timer.cancel()
        end()
        process.wait()
        process.stdout.close()
    if late:
        fault = f"did not end within {COMMAND_SECONDS:g} s"
    lines = output.decode(errors="replace").strip("\r\n").splitlines()
    if not fault and (len(lines) != 1 or not lines[0]):
        fault = "printed nothing" if not lines else f"printed {len(lines)} lines, and a secret is one"
    if fault:
        raise RidgelineError(
            f"`{what}`: command `{name}` {fault}; run it by hand, as the user of this process"
        )
    return lines[0]
