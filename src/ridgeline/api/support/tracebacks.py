"""The frames of a traceback that lie in the user's own code."""

from __future__ import annotations

import linecache
import re
import site
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

import ridgeline

_FRAME = re.compile(r'  File "(?P<path>[^"]+)", line \d+')
_CELLS = ("<ipython-input", "<stdin>")
_OURS = str(Path(ridgeline.__file__).parent)


def users_frames(text: str, limit: int = 12) -> str:
    """Cut a traceback's text down to the last `limit` frames of the user's code.

    Frames of Ridgeline, Spark, Python and installed packages are left out. Those between the user's frames,
    or between them and the exception, are counted. Returns "" if no frame is the user's.
    """
    blocks = _blocks(text)
    frames = [block for block in blocks if block[0]]
    if not any(_is_users(path) for path, _ in frames):
        return ""
    hidden_first = max(0, sum(_is_users(path) for path, _ in frames) - limit)
    lines: list[str] = []
    seen_users = False
    skipped = 0
    for path, block in blocks:
        if path and _is_users(path):
            seen_users = True
            if hidden_first:
                hidden_first -= 1
                continue
        elif path:
            skipped += seen_users
            continue
        if skipped:
            lines.append(f"  ... {skipped} frame{'s' if skipped > 1 else ''} of libraries\n")
            skipped = 0
        if not path:
            seen_users = False
        lines.append(block)
    return "".join(lines)


def last_frames(error: BaseException) -> str:
    """`users_frames` of an exception that the caller caught."""
    return users_frames(
        "".join(traceback.format_exception(type(error), error, _without_ours(error.__traceback__)))
    )


def users_line(text: str) -> str:
    """The last frame of the user's code in a traceback's text, with its source line if it is known.

    Returns "" if no frame is the user's. A worker does not know the lines of a notebook's cells; they are
    looked up here, on the driver.
    """
    frames = [(path, block) for path, block in _blocks(text) if path and _is_users(path)]
    if not frames:
        return ""
    path, block = frames[-1]
    first, _, rest = block.partition("\n")
    number = re.search(r", line (\d+)", first)
    source = rest.splitlines()[0] if rest.strip() else ""
    if not source and number and (line := linecache.getline(path, int(number.group(1))).strip()):
        source = f"    {line}"
    return "\n".join(filter(None, [first, source]))


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """Drop the frames before the first one of the user's code."""
    start = trace
    while start is not None and not _is_users(start.tb_frame.f_code.co_filename):
        start = start.tb_next
    return start or trace


def _blocks(text: str) -> list[tuple[str, str]]:
    """Split a traceback's text into frames, (path, lines), and other text, ("", lines)."""
    blocks: list[tuple[str, str]] = []
    for line in text.splitlines(keepends=True):
        match = _FRAME.match(line)
        if match:
            blocks.append((match["path"], line))
        elif blocks and blocks[-1][0] and line.startswith("    "):
            path, block = blocks[-1]
            blocks[-1] = (path, block + line)
        elif blocks and not blocks[-1][0]:
            blocks[-1] = ("", blocks[-1][1] + line)
        else:
            blocks.append(("", line))
    return blocks


def _is_users(path: str) -> bool:
    """True unless the file belongs to Ridgeline, Python or an installed package, here or on a worker."""
    if (path.startswith("<") and not path.startswith(_CELLS)) or any(
        part in path for part in ("/site-packages/", "/dist-packages/", "/pyspark/", "/pyspark.zip/")
    ):
        return False
    if path.endswith((".pyx", ".pxi")) and not Path(path).is_absolute():
        return False  # of a compiled package, such as Arrow: the path is that of its build
    installed = [*site.getsitepackages(), sysconfig.get_path("stdlib"), _OURS]
    return not any(path.startswith(f"{folder}/") for folder in installed)
