"""The parts that services need installed."""

import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

SECONDS = 600


class Unavailable(RuntimeError):  # noqa: N818 - the reason is what it says
    """A part that cannot be had here, with the reason."""


class Part(ABC):
    """One thing that a service needs: it is there, or is installed."""

    @abstractmethod
    def missing(self) -> str | None:
        """None if it is there or comes by itself when first used, else what is missing. Downloads nothing."""

    @abstractmethod
    def install(self) -> None:
        """Install it, if it is not there. Raises Unavailable, with the reason."""

    def remedy(self, service: str) -> str:
        """How the user gets it."""
        return f"`make services`, or `python -m ridgeline.testing.services --install {service}`"


def cache_folder() -> Path:
    """Where downloads are kept: `RIDGELINE_SERVICES`, or a folder of the user's cache."""
    if given := os.environ.get("RIDGELINE_SERVICES"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "ridgeline", "services")


def failed(
    command: Sequence[str], *, cwd: str | None = None, environment: Mapping[str, str] | None = None
) -> str | None:
    """Run a tool that installs; None if it succeeds, else what it printed."""
    try:
        ran = subprocess.run(  # noqa: S603 - fixed
            command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"it has not ended within {SECONDS} s"
    return ran.stdout + ran.stderr if ran.returncode else None
