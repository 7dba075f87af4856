"""A blob store of Azure on this machine: Azurite, by npm, kept in the cache folder of services."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

import pyarrow.fs
import pytest

from ridgeline.testing.services.parts import cache_folder
from support.accounts.reports import Command
from support.ports import free_port
from support.waiting import PATIENCE_SECONDS, wait_until

_VERSION = "3.37.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Of everybody who runs it: no secret."""


class Azurite:
    """A store whose blobs are in `folder`. Skips where it cannot be had."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._program, self._port = folder, _program(), free_port()
        self.process: Command | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.clean()

    def start(self) -> None:
        """Start it, or start it again."""
        log = self.folder / "azurite.log"
        words = ["node", self._program, "--blobHost", "127.0.0.1", "--blobPort", str(self._port), "--silent"]
        words += ["--location", str(self.folder / "blobs"), "--skipApiVersionCheck", "--disableTelemetry"]
        with log.open("ab") as out:
            self.process = server = Command(words, log=log, cwd=self.folder, stdout=out, stderr=out)

        def is_up() -> bool:
            assert server.poll() is None, log.read_text(errors="replace")[-3000:]
            try:
                self.files().create_dir("shop")
            except OSError:
                return False
            return True

        wait_until(is_up, "Azurite", every=0.2)

    def stop(self) -> None:
        """End it in order: what it has not written to its disk yet would be lost by a kill."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(PATIENCE_SECONDS)
        self.process.clean()
        self.process = None

    def files(self) -> Any:
        """Its blobs by pyarrow."""
        place = f"127.0.0.1:{self._port}"
        schemes = {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
        authority = {"blob_storage_authority": place, "dfs_storage_authority": place}
        return pyarrow.fs.AzureFileSystem(ACCOUNT, account_key=KEY, **authority, **schemes)

    @property
    def uri(self) -> str:
        """The container `shop`."""
        return f"abfs://{ACCOUNT}@127.0.0.1:{self._port}/shop"

    @property
    def settings(self) -> str:
        """What follows a URI."""
        return "enable_tls=false"


def _program() -> Path:
    """Its program, installed once."""
    for word in ("node", "npm"):
        if shutil.which(word) is None:
            pytest.skip(f"Azurite runs on Node, and there is no `{word}` on the PATH")
    folder = cache_folder() / f"azurite-{_VERSION}"
    if not folder.exists():
        work = folder.with_name(f"{folder.name}.{os.getpid()}")
        work.mkdir(parents=True)
        words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", f"azurite@{_VERSION}"]
        ran = subprocess.run(words, cwd=work, capture_output=True, text=True, check=False)
        if ran.returncode:
            shutil.rmtree(work, ignore_errors=True)
            pytest.skip(f"Azurite cannot be installed: {ran.stderr[-300:]}")
        work.rename(folder)
    return folder / "node_modules/azurite/dist/src/blob/main.js"
