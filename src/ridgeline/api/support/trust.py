"""Whose files may become code: pickles, modules and programs are read only where no other user can write.

A file or folder is trusted if it belongs to this user, to root or to an owner that was named. Neither its
group nor others may write to it. Who may write to a folder on the way to it could replace it. So no such
folder may be writable by others, unless it is sticky (`/tmp`).
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from functools import lru_cache

from ridgeline.api.errors import UntrustedError

SETTING = "RIDGELINE_TRUST"
"""The environment variable that names further owners (`yarn`, `1001`) and folders that are not checked."""
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40
_REASON = "what lies there is run as code"
_driver: set[int] = set()


def trust_owner(uid: int) -> None:
    """Trust a further user's files in this process: a worker trusts its driver, whose code it runs."""
    _driver.add(uid)


def is_exempt(path: str) -> bool:
    """True for paths in a folder that `RIDGELINE_TRUST` names: its user decides who may write there."""
    return any(
        path == folder or path.startswith(f"{folder}/")
        for folder in _settings(os.environ.get(SETTING, ""))[1]
    )


def check(path: str, purpose: str, remedy: str) -> None:
    """Refuse a folder or file that others could have written, or put there.

    A path that does not exist is passed over.

    `purpose` says what is refused ("checkpoint folder `x`"), `remedy` what else can be done ("give another
    `--checkpoint`").

    Raises:
        UntrustedError: Naming what was found: path, owner, mode.
        OSError: If it cannot be looked at.
    """
    if is_exempt(path):
        return
    end = os.path.realpath(path)
    for step, found in _steps(path):
        is_link = stat.S_ISLNK(found.st_mode)
        if is_link or step == end:
            _check_owner(step, found, purpose, remedy)
        if is_link or (step != end and _is_private(found)):
            continue
        if found.st_mode & _WRITABLE:
            where = f"`{step}`" if step == end else f"`{step}`, which it lies in,"
            raise UntrustedError(
                _writable(
                    purpose, where, found, f"run `chmod {'-R ' if step == end else ''}go-w {step}`", remedy
                )
            )


def is_trusted(path: str) -> bool:
    """True if `check` would not refuse it."""
    try:
        check(path, "", "")
    except (UntrustedError, OSError):
        return False
    return True


def check_entry(path: str, purpose: str, remedy: str) -> None:
    """As `check`, of a folder or file whose parent has been checked. Passes over what does not exist."""
    with contextlib.suppress(FileNotFoundError):
        check_found(os.stat(path), path, purpose, remedy)  # noqa: PTH116  plain strings are faster


def check_found(found: os.stat_result, path: str, purpose: str, remedy: str) -> None:
    """As `check_entry`, of what `os.stat` or `os.fstat` has found."""
    if not found.st_mode & _WRITABLE and found.st_uid == os.geteuid():
        return
    if is_exempt(path):
        return
    _check_owner(path, found, purpose, remedy)
    if found.st_mode & _WRITABLE:
        raise UntrustedError(
            _writable(
                purpose, f"`{path}`", found, f"run `chmod -R go-w {path}` if it is as you left it", remedy
            )
        )


def private_folder(path: str, purpose: str, remedy: str) -> None:
    """Make a private folder, or check an existing one: others can guess the name and create it first.

    Raises UntrustedError if it is a link or another user's, OSError if it cannot be made.
    """
    with contextlib.suppress(FileExistsError):
        os.makedirs(path, mode=0o700)  # noqa: PTH103
    found = os.lstat(path)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        what = f"`{path}` is there and not a folder of yours ({_who(found)})"
        raise UntrustedError(f"{purpose} is refused: {what}, and {_REASON}; remove it, or {remedy}")
    if found.st_mode & _WRITABLE:
        check(path, purpose, remedy)
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(path, 0o700)  # noqa: PTH101


def close(path: str) -> None:
    """Keep other users out of a folder of this user. Raises OSError."""
    found = os.stat(path)  # noqa: PTH116
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(path, 0o700)  # noqa: PTH101


def private_opener(path: str, flags: int) -> int:
    """For `open(..., opener=private_opener)`: new files are their owner's alone; links are refused."""
    mode = 0o666 if is_exempt(path) else 0o600
    return os.open(path, flags | os.O_NOFOLLOW, mode)


def _check_owner(path: str, found: os.stat_result, purpose: str, remedy: str) -> None:
    if (
        found.st_uid in {0, os.geteuid()}
        or found.st_uid in _driver
        or found.st_uid in _settings(os.environ.get(SETTING, ""))[0]
    ):
        return
    what = f"`{path}` belongs to somebody else ({_who(found)}; this is `{_user_name(os.geteuid())}`)"
    ways = f"{remedy}, or name owners that you trust in `{SETTING}`"
    raise UntrustedError(f"{purpose} is refused: {what}, and {_REASON}; {ways}")


def _writable(purpose: str, where: str, found: os.stat_result, first: str, remedy: str) -> str:
    fault = f"{where} can be written by others ({_who(found)}), and {_REASON}"
    return f"{purpose} is refused: {fault}; {first}, or {remedy}"


def _is_private(found: os.stat_result) -> bool:
    """True for parent folders that are sticky, or whose group is the owner's own (umask 002)."""
    return bool(found.st_mode & stat.S_ISVTX) or (
        not found.st_mode & stat.S_IWOTH and _is_own_group(found.st_uid, found.st_gid)
    )


@lru_cache(maxsize=64)
def _is_own_group(uid: int, gid: int) -> bool:
    try:
        name, group = pwd.getpwuid(uid).pw_name, grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == name and set(group.gr_mem) <= {name}


def _steps(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """The existing folders and links on the way to an absolute path, and where it leads."""
    todo, current, links = path.split("/")[::-1], "/", 0
    yield "/", os.lstat("/")
    while todo:
        part = todo.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            current = os.path.dirname(current)  # noqa: PTH120
            continue
        step = f"{current.rstrip('/')}/{part}"
        try:
            found = os.lstat(step)
        except FileNotFoundError:
            return
        yield step, found
        if not stat.S_ISLNK(found.st_mode):
            current = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(step)  # noqa: PTH115
        current = "/" if target.startswith("/") else current
        todo += target.split("/")[::-1]


@lru_cache(maxsize=4)
def _settings(text: str) -> tuple[frozenset[int], tuple[str, ...]]:
    """The owners and folders of the setting. Raises UntrustedError for a name that is neither."""
    owners, folders = set(), []
    for part in filter(None, map(str.strip, text.split(","))):
        if part.startswith("/"):
            folders.append(os.path.abspath(part))  # noqa: PTH100
        elif part.isascii() and part.isdigit():
            owners.add(int(part))
        else:
            try:
                owners.add(pwd.getpwnam(part).pw_uid)
            except KeyError:
                remedy = "give users, numbers of users or absolute paths of folders"
                raise UntrustedError(
                    f"`{SETTING}` names `{part}`, which is no user of this host; {remedy}"
                ) from None
    return frozenset(owners), tuple(folders)


def _who(found: os.stat_result) -> str:
    return f"owner `{_user_name(found.st_uid)}`, mode {stat.S_IMODE(found.st_mode):04o}"


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
