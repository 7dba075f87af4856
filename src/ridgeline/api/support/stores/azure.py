"""Azure's blob store by pyarrow: the key comes from the environment, and files have other names by a copy."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pyarrow.fs

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.secrets.providers import provided
from ridgeline.api.support.stores.delegating import DelegatingFiles

_Result = TypeVar("_Result")
SCHEMES = frozenset({"abfs", "abfss"})
KEY, TOKEN = "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"
_REFUSED = re.compile(
    r"\[(?:AuthenticationFailed|AuthorizationFailure|AuthorizationPermissionMismatch"
    r"|InvalidAuthenticationInfo)\]|AuthenticationException|Server failed to authenticate"
)
_OWN = frozenset({"client_id", "credential_kind", "sig"})
"""Settings of a URI that say who the user is."""


def azure(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the file system of a URI such as `abfs://account@container/in`, and the path in it.

    The user is that of the URI's settings, else of the variables `KEY` or `TOKEN`, else as Azure's own
    clients find it.
    Raises OSError, ValueError or pyarrow.ArrowException if the URI is none.
    """
    files, path = pyarrow.fs.FileSystem.from_uri(uri)
    key, token = (provided(os.environ.get(name, ""), name) for name in (KEY, TOKEN))
    if (key or token) and not _OWN & dict(parse_qsl(urlsplit(uri).query)).keys():
        known: dict[str, Any] = {name: value for name, value in files.__reduce__()[1][0].items() if value}
        known |= {"account_key": key} if key else {"sas_token": token}
        files = pyarrow.fs.AzureFileSystem(**known)
    return pyarrow.fs.PyFileSystem(AzureFiles(files)), path


class AzureFiles(DelegatingFiles):
    """pyarrow's blobs of Azure, which are copied and deleted where an account cannot rename them."""

    kind = "abfs"

    def done(self, do: Callable[[], _Result]) -> _Result:
        """Do something with the blobs. Raises RidgelineError for a user who is refused."""
        try:
            return do()
        except OSError as error:
            text = " ".join(str(error).split())
            if "[BlobNotFound]" in text:
                raise FileNotFoundError(errno.ENOENT, text) from error
            if _REFUSED.search(text):
                remedy = f"set `{KEY}` or `{TOKEN}` on all hosts, or what Azure's own clients take"
                raise RidgelineError(f"Azure does not know the user, or refuses: {text}; {remedy}") from error
            raise

    def move(self, src: str, dest: str) -> None:
        """Rename a blob; one that is there is replaced. Raises FileNotFoundError."""
        try:
            self.done(lambda: self.files.move(src, dest))
        except (NotImplementedError, pa.ArrowNotImplementedError):  # an account without folders
            self.copy_file(src, dest)
            self.delete_file(src)
