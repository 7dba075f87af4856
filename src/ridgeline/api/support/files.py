"""File systems by path or URI: local disk, `file:`, `s3:`/`s3a:`, `hdfs:`, `gs:`, `abfs:`."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow.fs

from ridgeline.api.clock import Clock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import mask_text
from ridgeline.api.support.stores.azure import SCHEMES as AZURE_SCHEMES
from ridgeline.api.support.stores.azure import azure
from ridgeline.api.support.stores.hdfs import SCHEMES as HDFS_SCHEMES
from ridgeline.api.support.stores.hdfs import hdfs

_ALIASES = {"s3a": "s3", "s3n": "s3"}
_s3: dict[str, object] = {}
_Result = TypeVar("_Result")
STORE_SECONDS = 30.0
"""How long a container waits for a store in one attempt; less than it may take for a window."""
_ERRORS = frozenset(
    {
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EPIPE,
        errno.ETIMEDOUT,
    }
)
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""A disk or quota is full."""
_PASSING = FULL | {errno.ESTALE, errno.ENOTCONN}
"""The same, or a mounted folder has lost its server."""
_found: set[str] = set()
"""Each `lasting` of `waiting_for_store` that was found: one that is missing later has lost its mount."""
_TEXTS = re.compile(
    r"AWS Error (?:NETWORK_CONNECTION|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING"
    r"|INTERNAL_FAILURE)"  # of pyarrow
    r"|HTTP (?:response code |status )?(?:500|502|503|504)"
    r"|^(?:AWSApiCallTimeout|AWSStatus500|AWSServiceThrottled|BindOn|BlockMissing|ClosedChannel|Connect"
    r"|ConnectTimeout|ConnectionPoolTimeout|EOF|HttpChannelEOF|HttpHostConnect|NoHttpResponse|NoRouteToHost|PortUnreachable|Retriable|SafeMode"
    r"|Socket|SocketTimeout|SSL|Standby|UnknownHost)Exception:"  # of Hadoop, see `HadoopStorage`
    r"|^AWSClientIOException:.*(?:Unable to execute HTTP request|[Tt]imed out|[Cc]onnection)"
    r"|could only be (?:written|replicated) to \d+ (?:of|nodes)|All datanodes .* are bad"  # of HDFS
    r"|Fail to get a new connection for|Azure Error: \[(?:InternalError|OperationTimedOut|ServerBusy)\]"
    r"|Unable to create new block|Unable to close file because|Name node is in safe mode",
    re.DOTALL,
)


_REFUSALS = re.compile(
    r"AWS Error (?:ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|INVALID_SIGNATURE"
    r"|SIGNATURE_DOES_NOT_MATCH|MISSING_AUTHENTICATION_TOKEN|UNRECOGNIZED_CLIENT|NO_SUCH_BUCKET)"
    r"|HTTP (?:response code |status )?(?:401|403)"
)


def s3_settings() -> dict[str, object]:
    """The arguments for pyarrow's S3FileSystem in this process, secrets included.

    Empty: the AWS_* variables of the environment decide.
    """
    return dict(_s3)


def use_s3(settings: Mapping[str, object]) -> None:
    """Set the arguments for pyarrow's S3FileSystem that `resolve` uses in this process from now on."""
    _s3.clear()
    _s3.update(settings)


def is_local(uri: str) -> bool:
    """True for a plain path or a `file:` URI."""
    scheme = urlsplit(uri).scheme
    return len(scheme) <= 1 or scheme == "file"  # one letter: a Windows drive


def has_query(uri: str) -> bool:
    """True if a URI ends with settings, as in `s3://bucket/in?region=eu`; else `?` is a wildcard."""
    query = uri.partition("?")[2]
    return not is_local(uri) and "=" in query and all("=" in part for part in query.split("&"))


def local_path(uri: str) -> str:
    """Convert a plain path or `file:` URI into an absolute path."""
    path = unquote(urlsplit(uri).path) if uri.startswith("file:") else uri
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111  plain strings here


def sync_folder(path: str) -> None:
    """Let the names in a folder of the local disk outlive a power cut. Raises OSError."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def sync_above(path: str) -> None:
    """Let the name of a folder outlive a power cut, and those of the folders that it lies in.

    It does not matter who made them: another process may have died before it could do that. Folders in which
    this user can make nothing, and those beyond a mount, are left alone. Raises OSError.
    """
    while not os.path.ismount(path):
        path = os.path.dirname(path)  # noqa: PTH120
        if not os.access(path, os.R_OK | os.W_OK):
            return
        sync_folder(path)


def resolve(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path in it.

    Raises RidgelineError if pyarrow cannot reach it.
    """
    if is_local(uri):
        return pyarrow.fs.LocalFileSystem(), local_path(uri)
    scheme = urlsplit(uri).scheme
    try:
        if not has_query(uri):
            if _ALIASES.get(scheme, scheme) == "s3" and "@" not in uri:
                return _resolve_s3(uri)
            uri = uri.replace("?", "%3F").replace("#", "%23")
        if scheme in HDFS_SCHEMES:
            return hdfs(uri)
        if scheme in AZURE_SCHEMES:
            return azure(uri)
        filesystem, path = pyarrow.fs.FileSystem.from_uri(_ALIASES.get(scheme, scheme) + uri[len(scheme) :])
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        remedy = (
            "give a path, or a URI such as `file:`, `s3a:` or `hdfs:` whose client libraries are installed"
        )
        raise RidgelineError(
            f"`{mask_text(uri)}` cannot be reached: {mask_text(str(error))}; {remedy}"
        ) from error
    return filesystem, path


def _resolve_s3(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the S3 of this process, for `resolve`: by `use_s3`, else by the AWS_* variables."""
    path = uri.partition(":")[2].lstrip("/")  # as it is: `?` and `#` are characters of a name
    settings = {"allow_delayed_open": True, **_s3}  # a small file is one request, not three
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:  # pyarrow does not read it
        settings.setdefault("endpoint_override", endpoint)
    placed = endpoint or "endpoint_override" in settings
    if (
        "region" not in settings
        and not placed
        and not os.environ.keys() & {"AWS_REGION", "AWS_DEFAULT_REGION"}
    ):
        settings["region"] = pyarrow.fs.resolve_s3_region(path.partition("/")[0])
    return pyarrow.fs.S3FileSystem(**settings), path


# Stores that do not answer ----------------------------------------------------------------------------------


class UnavailableError(OSError):
    """A store has not answered for long. It is not known whether it did what it was asked for."""


def is_unavailable(error: OSError) -> bool:
    """True if a store, or the network to it, is to blame, so that a later try may succeed."""
    if isinstance(error, (FileNotFoundError, FileExistsError, PermissionError)):
        return False
    return (
        isinstance(error, (ConnectionError, TimeoutError, UnavailableError))
        or error.errno in _ERRORS
        or _TEXTS.search(str(error)) is not None
    )


def is_refused(error: OSError) -> bool:
    """True if an S3 store does not accept the user, or has no such bucket: waiting does not fix that."""
    return _REFUSALS.search(str(error)) is not None


class StoreAwayError(RidgelineError):
    """An output cannot use its files now, and nothing of the call was lost: it may be made again.

    `place`: where the files are; `why`: the error of the file system. Both are without secrets.
    """

    def __init__(self, text: str, place: str, why: str) -> None:
        super().__init__(text)
        self.place, self.why = place, why


def may_recover(error: OSError) -> bool:
    """True if a later try may succeed: as `is_unavailable`, or a disk is full, or a mount is gone."""
    return is_unavailable(error) or error.errno in _PASSING or "No space left on device" in str(error)


def is_of_store(error: BaseException) -> bool:
    """True if an error comes of a store that was waited for, and did not answer."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:  # an error may be its own cause
        if isinstance(cause, UnavailableError):
            return True
        seen.add(id(cause))
        cause = cause.__cause__
    return False


def unavailable(seconds: float, tries: int, error: str) -> UnavailableError:
    """The error after so many attempts in so long; `error`: the last one, as text."""
    attempts = f"{tries} attempt{'s' if tries > 1 else ''}"
    text = f"the store has not answered for {seconds:.0f} s ({attempts}), last error: {error}"
    return UnavailableError(text)


def store_pause(tries: int) -> float:
    """Seconds to wait after so many failures in a row before the next one."""
    return min(2.0, 0.25 * 2 ** min(tries, 8))


def waiting_for_store(
    operation: Callable[[], _Result], clock: Clock, seconds: float = STORE_SECONDS, *, lasting: str = ""
) -> _Result:
    """Do something with files, and do it again while their store does not answer, or their disk is full.

    `lasting`: the local path of what is never removed beside the files. If it was there and is not, a mount
    is gone, and files that are missing are waited for, too. Raises UnavailableError after `seconds`, and at
    once what does not pass by itself.
    """
    began, tries = clock.monotonic(), 0
    while True:
        try:
            result = operation()
        except OSError as error:
            gone = isinstance(error, FileNotFoundError) and lasting in _found
            if not may_recover(error) and not (gone and not os.path.exists(lasting)):  # noqa: PTH110
                raise
            lasted, tries = clock.monotonic() - began, tries + 1
            if lasted >= seconds:
                raise unavailable(lasted, tries, " ".join(mask_text(str(error)).split())) from error
            clock.wait(store_pause(tries - 1))
        else:
            if lasting:
                _found.add(lasting)
            return result
