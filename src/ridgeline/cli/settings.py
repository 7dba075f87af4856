"""What `ridgeline run` was asked to do."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

DEFAULT_MASTER = "local[*]"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The command line of `ridgeline run`, as it was given."""

    target: str
    master: str = DEFAULT_MASTER
    conf: Sequence[str] = ()
    checkpoint: str | None = None
    properties: Sequence[str] = ()
    attributes: Sequence[str] = ()
    windows: int | None = None
    quiet: bool = False
    options: Sequence[str] = field(default=())

    def command(self, checkpoint: str) -> str:
        """The same command that goes on from a checkpoint."""
        words = ["ridgeline", "run", self.target]
        if self.master != DEFAULT_MASTER:
            words += ["--master", self.master]
        for option, values in (("--conf", self.conf), ("-D", self.properties), ("--attribute", self.attributes)):
            for value in values:
                words += [option, value]
        if self.windows is not None:
            words += ["--windows", str(self.windows)]
        if self.quiet:
            words.append("--quiet")
        return shlex.join([*words, "--checkpoint", checkpoint, *self._guarded_options()])

    def _guarded_options(self) -> list[str]:
        """The application's options; behind `--` if the command would take one of them for its own."""
        own = {"--master", "--conf", "--checkpoint", "--attribute", "--windows", "--quiet", "--help"}
        clash = any(option.partition("=")[0] in own or option.startswith("-D") for option in self.options)
        return ["--", *self.options] if clash else list(self.options)

    @property
    def ending(self) -> str:
        """How the run will end, in one line."""
        finished = "when all inputs have finished"
        if self.windows is not None:
            finished = f"after {self.windows:,} window{'' if self.windows == 1 else 's'}, or {finished}"
        return f"ends {finished}; Ctrl-C ends it after the window that runs"
