"""Where tables are: their URI, the options of their store, and errors that no further attempt can mend."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from ridgeline.api.errors import RidgelineError, capped
from ridgeline.api.support.files import is_local, local_path
from ridgeline.api.support.masking import mask_text
from ridgeline.connect.extras import library
from ridgeline.connect.secrets import Secret, secret_value
from ridgeline.connect.sink import SinkUnavailableError

_PATIENCE = {"max_retries": "3", "retry_timeout": "20s", "connect_timeout": "5s"}
"""The client of stores asks again by itself; ours says meanwhile that the store is unavailable."""
_UNSAFE = ("aws_s3_allow_unsafe_rename", "allow_unsafe_rename")
_HOPELESS = (
    "accessdenied",
    "403 forbidden",
    "401 unauthorized",
    "invalidaccesskeyid",
    "signaturedoesnotmatch",
    "nosuchbucket",
    "permission denied",
    "unknown configuration key",
)
_AWAY = (
    "Generic S3 error",
    "Generic GCS error",
    "Generic MicrosoftAzure error",
    "Generic HTTP error",
    "error sending request",
    "AWS Error NETWORK_CONNECTION",
)
_PAINT = re.compile(r"\x1b\[[\d;]*m")
_CONFLICTS = ("concurrent", "already exists", "conflict", "commit attempts")


def deltalake() -> Any:
    """The library. Raises RidgelineError if it is not installed."""
    return library("deltalake", "Delta tables need deltalake, which cannot be imported", "lake")


def table_uri(path: str) -> str:
    """A relative path made absolute; a URI as it is."""
    return local_path(path) if is_local(path) else path


def delta_faults(path: str, storage: Mapping[str, object]) -> list[tuple[str, object, str]]:
    """The faults of an operator whose table cannot be reached so."""
    faults: list[tuple[str, object, str]] = []
    try:
        deltalake()
    except RidgelineError as error:
        faults.append(("path", path, str(error)))
    faults += [
        (f"storage.{name}", "...", "is refused: two writers could overwrite each other's commit")
        for name in storage
        if name.lower() in _UNSAFE
    ]
    return faults


class Store:
    """A Delta table's place and the options of its store, of which some are secrets."""

    def __init__(self, path: str, storage: Mapping[str, Secret]) -> None:
        self.uri = table_uri(path)
        self._storage = storage

    def options(self) -> dict[str, str]:
        """The options with the values of secrets. Raises RidgelineError for one that is not there."""
        if is_local(self.uri):
            return {}
        given = {name: secret_value(value, f"storage.{name}") for name, value in self._storage.items()}
        known = {name.lower() for name in given}
        made = dict(_PATIENCE)
        if urlsplit(self.uri).scheme.startswith("s3") and not known & {
            "aws_conditional_put",
            "conditional_put",
            "aws_s3_locking_provider",
        }:
            made["conditional_put"] = "etag"
        endpoint = next((given[name] for name in given if "endpoint" in name.lower()), "")
        if endpoint.startswith("http://"):
            made["allow_http"] = "true"
        return {**{name: value for name, value in made.items() if name not in known}, **given}

    def load(self) -> Any:
        """The table as it is now. Raises TableNotFoundError of the library."""
        return deltalake().DeltaTable(self.uri, storage_options=self.options())


def place(kind: str, uri: str) -> str:
    """A table for people, without secrets."""
    return f"{kind} table {mask_text(uri)}"


def first_line(error: BaseException) -> str:
    """The text of an error of the library, without the stack that it may add."""
    text = _PAINT.sub("", str(error)).partition("\n   0: ")[0]
    lines = (line.strip(" \u21b3") for line in text.splitlines())
    return ": ".join(line for line in lines if line) or type(error).__name__


def is_hopeless(error: BaseException) -> bool:
    """Whether a store refuses for reasons that time does not mend: rights, a bucket that is missing."""
    text = str(error).lower()
    return any(part in text for part in _HOPELESS)


def is_away(error: BaseException) -> bool:
    """Whether a store cannot be reached now, or is full."""
    if is_hopeless(error):
        return False
    return isinstance(error, OSError) or of_store(error) or "No space left" in str(error)


def of_store(error: BaseException) -> bool:
    """Whether an error is that of a store that cannot be reached, whatever the library has made of it."""
    return not is_hopeless(error) and any(part in str(error) for part in _AWAY)


def is_conflict(error: BaseException) -> bool:
    """Whether another writer has committed meanwhile: with the newest version it may work."""
    library = deltalake()
    if not isinstance(error, library.exceptions.DeltaError):
        return False
    text = str(error)
    if text.startswith("Failed to commit transaction: ") and text.rpartition(" ")[2].isdigit():
        return True
    return any(part in text.lower() for part in _CONFLICTS)


@contextmanager
def explaining(operator: str, where: str) -> Iterator[None]:
    """Turn errors of the library into those that say whether it is worth trying again.

    Raises SinkUnavailableError if it is, RidgelineError with the remedy if not.
    """
    try:
        yield
    except (RidgelineError, SinkUnavailableError):
        raise
    except Exception as error:
        text = mask_text(first_line(error))
        if is_away(error) or is_conflict(error):
            raise SinkUnavailableError(text) from error
        remedy = "mend that, then start it again: nothing that was committed is lost"
        if is_hopeless(error):
            remedy = "check `path` and `storage`"
        raise RidgelineError(
            f"`{operator}` cannot write to {where}: {capped(text, 1000)}; {remedy}"
        ) from error
