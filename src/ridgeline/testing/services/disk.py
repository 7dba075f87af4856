"""A small disk of a service's own, which can be filled: a tmpfs that only its processes see."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ridgeline.testing.services.processes import Started

_TOOLS = ("unshare", "nsenter", "mount")
_UNSHARE = ("unshare", "--mount", "--propagation", "private")


def why_no_disk() -> str | None:
    """None if this process may mount a tmpfs in a namespace of mounts, else the reason."""
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"a small disk needs `{missing[0]}`, which is not on the PATH"
    if os.geteuid() != 0:
        return "a small disk needs root, for a mount that only the service sees"
    ran = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)  # noqa: S603 - fixed
    return f"a small disk needs a namespace of mounts: {ran.stderr.strip()}" if ran.returncode else None


class SmallDisk:
    """A tmpfs on a folder, in a namespace that a process of its own keeps. It is gone when that process ends.

    Args:
        folder: where it is mounted.
        size: in bytes.
        service: the folder of the service, for what is printed.

    Raises:
        RuntimeError: with the reason, if it cannot be had.
    """

    def __init__(self, folder: Path, size: int, service: Path) -> None:
        if reason := why_no_disk():
            raise RuntimeError(reason)
        script = f'mount -t tmpfs -o size={size},mode=0777 ridgeline "$0" && echo ok && exec cat >/dev/null'
        command = [*_UNSHARE, "sh", "-c", script, str(folder)]
        log = service / "disk.log"
        self._process = Started(command, log, cwd=service, commands=True)
        if self._process.answer() != "ok":
            self.close()
            raise RuntimeError(f"no small disk: {log.read_text()}")
        pid = self._process.pid
        self.prefix: Sequence[str] = ("nsenter", f"--target={pid}", "--mount", f"--wd={service}")
        """Begins a command that sees the disk."""
        self._ballast = Path(f"/proc/{pid}/root{folder}/ballast")

    def fill(self) -> None:
        """Write a file until nothing is left."""
        with self._ballast.open("ab") as ballast:
            for step in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while True:
                        os.posix_fallocate(ballast.fileno(), os.fstat(ballast.fileno()).st_size, step)

    def free(self) -> None:
        """Remove that file."""
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """End the process that keeps the disk."""
        self._process.kill()
