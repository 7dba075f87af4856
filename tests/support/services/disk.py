"""A small disk of a service's own, which can be filled: a tmpfs that only its processes see."""

import contextlib
import os
import subprocess
from pathlib import Path

_UNSHARE = ("unshare", "--mount", "--propagation", "private")


class SmallDisk:
    """A tmpfs of `size` bytes on a folder, kept by a process of its own: it is gone when that process ends.

    `service`: the folder of the service, in which its commands begin.
    """

    def __init__(self, folder, size, service):
        script = f'mount -t tmpfs -o size={size},mode=0777 ridgeline "$0" && echo ok && exec cat >/dev/null'
        command = [*_UNSHARE, "sh", "-c", script, str(folder)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdout.readline() == "ok\n"
        pid = self._process.pid
        self.prefix = ("nsenter", f"--target={pid}", "--mount", f"--wd={service}")
        """Begins a command that sees the disk."""
        self._ballast = Path(f"/proc/{pid}/root{folder}/ballast")

    def fill(self):
        """Write a file until nothing is left."""
        with self._ballast.open("ab") as ballast:
            for step in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while True:
                        os.posix_fallocate(ballast.fileno(), os.fstat(ballast.fileno()).st_size, step)

    def free(self):
        """Remove that file."""
        self._ballast.unlink(missing_ok=True)

    def close(self):
        """End the process that keeps the disk."""
        self._process.kill()
        self._process.communicate()
