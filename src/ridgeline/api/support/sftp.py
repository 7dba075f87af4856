"""Files of SFTP servers, for pyarrow: `sftp://user@host:22/absolute/path`.

The user's keys are those of OpenSSH: an agent, `~/.ssh/id_*`, `~/.ssh/config`, or the file that the variable
`SFTP_KEY` names; a password is in `SFTP_PASSWORD`. The server's key has to be in `~/.ssh/known_hosts`, or in
the file that `SFTP_KNOWN_HOSTS` names. A process has one connection for each user and host. It is made when
it is first needed, and again after it broke.

Errors are those of local files (FileNotFoundError, PermissionError, OSError). A server that does not answer
is a ConnectionError, and one that refuses the user, or whose key is not known, a RidgelineError.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import io
import os
import stat
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs
from pyarrow.fs import FileInfo, FileType

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.secrets.providers import provided

PASSWORD, KEY, KNOWN_HOSTS = "SFTP_PASSWORD", "SFTP_KEY", "SFTP_KNOWN_HOSTS"
_CONNECT_SECONDS = 10.0
_CHUNK_BYTES = 1 << 20
_DEEPEST = 100
"""Folders in folders: links may lead in circles."""
_connections: dict[tuple[int, str], _Connection] = {}
_lock = threading.Lock()


def sftp(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of a URI, and the path in it. It does not connect yet.

    Raises RidgelineError if asyncssh is not installed, and for a URI without a host or with a password.
    """
    parts = urlsplit(uri)
    if not parts.hostname or parts.password:
        what = "has a password in it" if parts.password else "names no host"
        remedy = f"give `sftp://user@host/path`, and a password in the environment variable `{PASSWORD}`"
        raise RidgelineError(f"the URI of SFTP {what}; {remedy}")
    _library()
    key = os.getpid(), parts.netloc
    with _lock:
        if key not in _connections:
            _connections[key] = _Connection(parts.hostname, parts.port or 22, parts.username)
    return pyarrow.fs.PyFileSystem(SftpFiles(_connections[key])), unquote(parts.path) or "/"


def close_connections() -> None:
    """Close those of this process; who reads or writes afterwards connects again."""
    with _lock:
        for (process, _), connection in _connections.items():
            if process == os.getpid():
                connection.close()
        _connections.clear()


atexit.register(close_connections)


def _library() -> Any:
    """The client's library. Raises RidgelineError if it is not installed."""
    try:
        import asyncssh
    except ImportError as error:
        raise RidgelineError(
            "SFTP needs asyncssh, which is not installed; run `pip install 'ridgeline[sftp]'`"
        ) from error
    return asyncssh


class _Connection:
    """A connection, whose calls wait in any thread for the one in which it lives."""

    def __init__(self, host: str, port: int, user: str | None) -> None:
        self.place = f"{user}@{host}:{port}" if user else f"{host}:{port}"
        self._host, self._port, self._user = host, port, user
        self._loop = asyncio.new_event_loop()
        self._open: tuple[Any, Any] | None = None
        """Connection and client."""
        self._opening: asyncio.Lock | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="ridgeline-sftp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the connection and its thread."""

        async def end() -> None:
            if self._open is not None:
                self._open[0].abort()
                await self._open[0].wait_closed()

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(_CONNECT_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, do: Callable[[Any], Coroutine[Any, Any, Any]], client: Any = None) -> Any:
        """Wait for a coroutine of the client, and return its result. Raises as the module says.

        `client`: the one that has opened a file, for what is done with the file.
        """
        asked = asyncio.run_coroutine_threadsafe(self._call(do, client), self._loop)
        return asked.result()

    def begin(self, do: Callable[[Any], Coroutine[Any, Any, Any]], client: Any) -> None:
        """Call without waiting for it. The connection's own thread may do so: objects are collected there."""
        if not self._loop.is_closed():
            asked = asyncio.run_coroutine_threadsafe(self._call(do, client), self._loop)
            asked.add_done_callback(_finish)

    async def _call(self, do: Callable[[Any], Coroutine[Any, Any, Any]], client: Any) -> Any:
        """Run a coroutine of the client in the connection's thread; its errors become those of the module."""
        ssh = _library()
        try:
            client = client or await asyncio.wait_for(self._client(), _CONNECT_SECONDS)
            return await do(client)
        except (ssh.SFTPNoSuchFile, ssh.SFTPNoSuchPath) as error:
            raise FileNotFoundError(2, f"no such file on {self.place}: {error.reason}") from error
        except ssh.SFTPPermissionDenied as error:
            raise PermissionError(13, f"not permitted on {self.place}: {error.reason}") from error
        except (ssh.SFTPConnectionLost, ssh.SFTPNoConnection) as error:
            raise self._gone(error, client) from error
        except ssh.SFTPError as error:
            raise OSError(f"{self.place} refuses: {error.reason}") from error
        except ssh.PermissionDenied as error:
            remedy = f"give a key that it knows (`{KEY}`), or a password (`{PASSWORD}`)"
            raise RidgelineError(f"{self.place} refuses the user: {error.reason}; {remedy}") from error
        except ssh.HostKeyNotVerifiable as error:
            remedy = f"add it to `~/.ssh/known_hosts`, or to the file that `{KNOWN_HOSTS}` names"
            raise RidgelineError(f"the key of {self.place} is not known: {error.reason}; {remedy}") from error
        except (ssh.Error, OSError, TimeoutError) as error:
            raise self._gone(error, client) from error

    async def _client(self) -> Any:
        """The client, connected."""
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._open is None or self._open[0].is_closed():
                options: dict[str, Any] = {"keepalive_interval": 15, "connect_timeout": _CONNECT_SECONDS}
                given = {"username": self._user, "password": provided(os.environ.get(PASSWORD, ""), PASSWORD)}
                given["known_hosts"] = os.environ.get(KNOWN_HOSTS)
                if key := os.environ.get(KEY):
                    options["client_keys"] = [key]
                options |= {name: value for name, value in given.items() if value}
                connection = await _library().connect(self._host, self._port, **options)
                self._open = connection, await connection.start_sftp_client()
            return self._open[1]

    def _gone(self, error: Exception, client: Any) -> ConnectionError:
        """The error if the server does not answer a client; the next call connects again.

        A connection that was made meanwhile stays. `client`: None if it could not be connected.
        """
        if self._open is not None and client in (None, self._open[1]):
            self._open[0].abort()
            self._open = None
        text = str(error) or type(error).__name__
        return ConnectionError(f"{self.place} does not answer: {text}")


def _finish(done: Any) -> None:
    """Drop the error of a call for which nothing waits."""
    if not done.cancelled():
        done.exception()


class SftpFiles(pyarrow.fs.FileSystemHandler):
    """The files of a server, for `pyarrow.fs.PyFileSystem`. Methods raise as the module says."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def __eq__(self, other: object) -> bool:
        """The same server and user."""
        return isinstance(other, SftpFiles) and other._connection.place == self._connection.place

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        """For messages."""
        return "sftp"

    def normalize_path(self, path: str) -> str:
        """Without a slash at the end."""
        return path.rstrip("/") or "/"

    def get_file_info(self, paths: Sequence[str]) -> list[FileInfo]:
        """Type, size and time of each."""
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> FileInfo:
        try:
            return _info(path, self._connection.call(lambda client: client.stat(path)))
        except FileNotFoundError:
            return FileInfo(path, FileType.NotFound)

    def get_file_info_selector(self, selector: pyarrow.fs.FileSelector) -> list[FileInfo]:
        """The files and folders in a folder."""
        folder, deep = selector.base_dir.rstrip("/") or "/", _DEEPEST if selector.recursive else 0

        async def found(client: Any) -> list[FileInfo]:
            return [info async for info in _below(client, folder, deep)]

        try:
            return list(self._connection.call(found))
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001  pyarrow's
        """Make a folder, unless it is there."""
        if recursive:
            self._connection.call(lambda client: client.makedirs(path, exist_ok=True))
        elif self._info(path).type != FileType.Directory:
            self._connection.call(lambda client: client.mkdir(path))

    def delete_dir(self, path: str) -> None:
        """Delete a folder with all that is in it."""
        if self._info(path).type == FileType.NotFound:
            raise FileNotFoundError(2, f"no such folder: {path}")
        self._connection.call(lambda client: client.rmtree(path))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        """Delete what is in a folder."""
        found = pyarrow.fs.FileSelector(path, allow_not_found=missing_dir_ok)
        for info in self.get_file_info_selector(found):
            (self.delete_dir if info.type == FileType.Directory else self.delete_file)(info.path)

    def delete_root_dir_contents(self) -> None:
        """Refused."""
        raise PermissionError("all files of a server are not deleted")

    def delete_file(self, path: str) -> None:
        """Delete a file."""
        self._connection.call(lambda client: client.remove(path))

    def move(self, src: str, dest: str) -> None:
        """Rename a file, in one step, also over another one where the server can do that."""

        async def renamed(client: Any) -> None:
            try:
                await client.posix_rename(src, dest)
            except _library().SFTPOpUnsupported:
                await client.rename(src, dest)

        self._connection.call(renamed)

    def copy_file(self, src: str, dest: str) -> None:
        """Copy a file."""
        with self.open_input_stream(src) as source, self.open_output_stream(dest, None) as target:
            while chunk := source.read(_CHUNK_BYTES):
                target.write(chunk)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file to read it."""
        return pa.PythonFile(_File(self._connection, path, "rb"), mode="r")

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        return pa.PythonFile(_File(self._connection, path, "rb"), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        """Open a file to write it from its beginning."""
        return pa.PythonFile(_File(self._connection, path, "wb"), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        """Open a file to write at its end."""
        return pa.PythonFile(_File(self._connection, path, "ab"), mode="w")


class _File(io.RawIOBase):
    """An open file. Once it is closed it is on the server's disk, where the server can do that."""

    def __init__(self, connection: _Connection, path: str, mode: str) -> None:
        self._connection, self._writes = connection, mode != "rb"
        self._client: Any = None
        self._file: Any = None
        if not self._writes and connection.call(functools.partial(_is_folder, path=path)):
            raise IsADirectoryError(21, f"{path} is a folder")
        self._client, self._file = connection.call(functools.partial(_opened, path=path, mode=mode))
        self._at = 0

    def readable(self) -> bool:
        """Whether it was opened to be read."""
        return not self._writes

    def writable(self) -> bool:
        """Whether it was opened to be written."""
        return self._writes

    def seekable(self) -> bool:
        """Reading begins anywhere."""
        return not self._writes

    def read(self, size: int = -1) -> bytes:
        """The next bytes, `size` at most."""
        data: bytes = self._connection.call(lambda _: self._file.read(size, self._at), self._client)
        self._at += len(data)
        return data

    def write(self, data: Any) -> int:
        """Write all bytes."""
        whole = bytes(data)
        self._connection.call(lambda _: self._file.write(whole), self._client)
        self._at += len(whole)
        return len(whole)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        if whence == os.SEEK_END:
            offset += self.size()
        self._at = offset + (self._at if whence == os.SEEK_CUR else 0)
        return self._at

    def size(self) -> int:
        """How many bytes it has."""
        found: int = self._connection.call(lambda _: self._file.stat(), self._client).size
        return found

    def close(self) -> None:
        """Close it. Raises ConnectionError if what was written may not be there."""
        if self.closed:
            return
        super().close()
        if self._file is not None:
            file, self._file = self._file, None
            if self._writes:
                self._connection.call(lambda _: _synced(file), self._client)
            else:
                self._connection.begin(lambda _: file.close(), self._client)

    def __del__(self) -> None:
        """Close what was left open, without waiting."""
        if self._file is not None:
            file, self._file = self._file, None
            self._connection.begin(lambda _: file.close(), self._client)


async def _opened(client: Any, path: str, mode: str) -> tuple[Any, Any]:
    return client, await client.open(path, mode)


async def _synced(file: Any) -> None:
    with contextlib.suppress(_library().SFTPOpUnsupported):
        await file.fsync()
    await file.close()


async def _is_folder(client: Any, path: str) -> bool:
    return stat.S_ISDIR((await client.stat(path)).permissions or 0)


async def _below(client: Any, folder: str, deep: int) -> AsyncIterator[FileInfo]:
    """The files and folders in a folder, and in the folders in it; links are followed."""
    for entry in await client.readdir(folder):
        if entry.filename in (".", ".."):
            continue
        path, found = f"{folder.rstrip('/')}/{entry.filename}", entry.attrs
        if stat.S_ISLNK(found.permissions or 0):
            try:
                found = await client.stat(path)
            except _library().SFTPNoSuchFile:  # a link to nothing
                continue
        info = _info(path, found)
        yield info
        if deep and info.type == FileType.Directory:
            with contextlib.suppress(_library().SFTPNoSuchFile):
                async for one in _below(client, path, deep - 1):
                    yield one


def _info(path: str, found: Any) -> FileInfo:
    """The attributes of a file."""
    mode = found.permissions or 0
    if stat.S_ISDIR(mode):
        return FileInfo(path, FileType.Directory)
    kind = FileType.File if stat.S_ISREG(mode) or not mode else FileType.Unknown
    return FileInfo(path, kind, size=found.size or 0, mtime_ns=(found.mtime or 0) * 10**9)
