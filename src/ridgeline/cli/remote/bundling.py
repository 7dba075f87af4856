"""`ridgeline bundle`: find the application or its log, ask, and write."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from ridgeline.api.clock import SystemClock
from ridgeline.api.support.masking import printable
from ridgeline.cli.errors import CommandError, make_console
from ridgeline.cli.output import write
from ridgeline.service.history.bundling import make_bundle
from ridgeline.service.history.listing import is_log

if TYPE_CHECKING:
    from ridgeline.cli.remote.options import Elsewhere
    from ridgeline.service.history.bundling import Asks

_NAMED = 5
"""Answers that are missing are named, but for further ones."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def bundle(app: str | None, output: str | None, windows: int, where: Elsewhere) -> None:
    """Write a bundle and print its name. Raises RidgelineError."""
    now = SystemClock().wall()
    if output is not None and Path(output).suffix != ".zip":
        raise CommandError(f"a bundle is a zip file: give `-o {Path(output).with_suffix('.zip')}`")
    asks: Asks
    if app is not None and where.url is None and Path(app).exists() and is_log(Path(app)):
        from ridgeline.service.history.asking import LogAsks

        asks = LogAsks(Path(app))
    else:
        asks = where.connect_to(app)
    if output is None:
        name = str(asks.get("/info").get("name", ""))
        at = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
        output = f"{_UNSAFE.sub('-', name)[:60].strip('-.') or 'application'}-{at}.zip"
    index = make_bundle(asks, Path(output), made=now, windows=windows)
    if missing := index["missing"]:
        names = ", ".join(list(missing)[:_NAMED])
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        text = f"not in the bundle, as its `index.json` says: {names}{more}"
        make_console().print(Text(printable(text), "yellow"), soft_wrap=True)
    write(f"{output}: {index['name']}, {index['sentence']}")
