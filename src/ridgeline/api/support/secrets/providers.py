"""Secrets that a text names and does not hold: `env:NAME`, `file:PATH`.

They are read in the process that uses them, when it does. A plan has the text alone.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pydantic

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import hide
from ridgeline.api.support.secret_names import is_secret

_LONGEST = 65_536
_PROVIDERS = re.compile(r"(env|file|command):(.+)", re.DOTALL)
_CERTAIN = re.compile(r"env:[A-Za-z_]\w*|file:\.?/(?!/).*|command:.+", re.DOTALL)


def names_provider(text: object) -> bool:
    """True for a text that can be nothing but the name of a secret's place.

    >>> [names_provider(text) for text in ("env:KEY", "file:/run/key", "file:./key", "file:x.db")]
    [True, True, True, False]
    """
    return isinstance(text, str) and _CERTAIN.fullmatch(text) is not None


def provided(text: str, what: str) -> str:
    """The secret that a text names; another text is the secret itself.

    `what`: the property or option, for errors.
    Raises RidgelineError with `what` and the provider if it is not there; its text holds no secret.
    """
    found = _PROVIDERS.fullmatch(text)
    if found is None:
        return text
    kind, name = found.groups()
    if kind == "command":  # a command once ran here: taken as the secret itself, anybody could guess it
        raise RidgelineError(
            f"`{what}`: `command:` is no place of a secret; run it before, and give `env:NAME` or `file:PATH`"
        )
    value = _of_environment(name, what) if kind == "env" else _of_file(name, what)
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
