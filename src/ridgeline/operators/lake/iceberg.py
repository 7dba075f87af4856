"""Catalogs of Iceberg tables, and errors that no further attempt can mend."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ridgeline.api.errors import RidgelineError, capped
from ridgeline.api.support.masking import mask_text
from ridgeline.connect.extras import library
from ridgeline.connect.secrets import Secret, secret_value
from ridgeline.connect.sink import SinkUnavailableError

_AWAY = (
    "CommitFailedException",
    "CommitStateUnknownException",
    "OperationalError",  # of a database that is gone, or locked
    "ServerError",
    "ServiceUnavailableError",
    "TooManyRequestsError",
    "ValidationException",  # another writer has changed the same files
    "WaitingForLockException",
)
_HOPELESS = ("ACCESS_DENIED", "AccessDenied", "NO_SUCH_BUCKET", "NoSuchBucket", "INVALID_ACCESS_KEY_ID")
_NO_MATCH = "Delete operation did not match any records"


def pyiceberg() -> Any:
    """The library. Raises RidgelineError if it is not installed."""
    what = "Iceberg tables need pyiceberg, which cannot be imported"
    for module in ("pyiceberg.catalog", "pyiceberg.exceptions"):
        library(module, what, "lake")
    warnings.filterwarnings("ignore", message=_NO_MATCH)  # keys that are new are the rule
    return library("pyiceberg", what, "lake")


def iceberg_faults(table: str) -> list[tuple[str, object, str]]:
    """The faults of an operator whose table cannot be reached so."""
    faults: list[tuple[str, object, str]] = []
    if "." not in table:
        faults.append(("table", table, "must name the namespace, too: `shop.totals`"))
    try:
        pyiceberg()
    except RidgelineError as error:
        faults.append(("table", table, str(error)))
    return faults


class IcebergTable:
    """A table's name, its catalog, and the properties of that, of which some are secrets."""

    def __init__(self, name: str, catalog: str, properties: Mapping[str, Secret]) -> None:
        self.name = name
        self._catalog, self._properties = catalog, properties

    @property
    def place(self) -> str:
        """For people, without secrets."""
        return f"Iceberg table {self.name} of catalog {self._catalog}"

    def catalog(self) -> Any:
        """The catalog. Raises RidgelineError for a secret that is not there."""
        given = {}
        for name, value in self._properties.items():
            is_uri = isinstance(value, str) and value.startswith("file://")
            given[name] = value if is_uri else secret_value(value, f"properties.{name}")
        return pyiceberg().catalog.load_catalog(self._catalog, **given)


def is_hopeless(error: BaseException) -> bool:
    """Whether rights are missing, or a bucket: time does not mend that."""
    name = type(error).__name__
    return name in {"UnauthorizedError", "ForbiddenError"} or any(part in str(error) for part in _HOPELESS)


def is_away(error: BaseException) -> bool:
    """Whether catalog or store cannot be reached now, or another writer was quicker."""
    if is_hopeless(error):
        return False
    return isinstance(error, OSError) or type(error).__name__ in _AWAY


def text_of(error: BaseException) -> str:
    """The text of an error of the library, without the statement of SQL that it may add."""
    return mask_text(str(error).partition("\n[SQL:")[0].strip() or type(error).__name__)


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
        if is_away(error):
            raise SinkUnavailableError(text_of(error)) from error
        remedy = "mend that, then start it again: nothing that was committed is lost"
        if is_hopeless(error):
            remedy = "check `table` and `properties`"
        raise RidgelineError(
            f"`{operator}` cannot write to {where}: {capped(text_of(error), 1000)}; {remedy}"
        ) from error
