"""The command `ridgeline init`."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import did_you_mean
from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import option
from ridgeline.cli.output import write

TEMPLATES = {
    "orders": "orders in files to totals by country and minute.",
    "kafka": "the same from one topic of Kafka to another.",
}
_PLACES = {"gitignore": ".gitignore", "github/ci.yml": ".github/workflows/ci.yml"}
"""Files that do not lie where the template has them."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ORDERS = 3_000
_BROKEN = 1_000
"""The line of the orders that is none: it shows what becomes of such lines."""


def init(
    folder: str = ".",
    *,
    template: Annotated[
        str, option(" ".join(f"`{name}`: {what}" for name, what in TEMPLATES.items()), metavar="NAME")
    ] = "orders",
    name: str | None = None,
) -> None:
    """Make a project that runs at once.

    An application, its tests, configuration, and a file for CI. No file is written over.

    Example: `ridgeline init shop`

    Exit codes: 0 done, 2 there is no such template, or a file of that name is there.

    Args:
        folder ([DIR]): The folder, which is made; its name is the application's.
        template: Which one, see `TEMPLATES`.
        name (NAME): Another name for the application.
    """
    if template not in TEMPLATES:
        raise CommandError(f"there is no template `{template}`; {did_you_mean(template, TEMPLATES)}")
    place = Path(folder)
    name = name or place.resolve().name
    if not _NAME.fullmatch(name):
        raise CommandError(
            f"`{name}` cannot be an application's name; give letters, digits, `_` and `-` with `--name`"
        )
    texts = {
        path: text.replace("PROJECT", name)
        for path, text in _texts(files("ridgeline.cli.starting") / "templates" / template)
    }
    if template == "orders":
        texts["in/orders.jsonl"] = _orders(SystemClock().wall())
    _write(place, texts)
    for path in texts:
        write(f"{place / path}")
    steps = "" if folder == "." else f"cd {folder} && "
    write(f"\n{steps}pytest -q test_app.py && ridgeline run app.py")


def _write(place: Path, texts: dict[str, str]) -> None:
    """Write all files, or none if one is there. Raises CommandError."""
    if there := [path for path in texts if (place / path).exists()]:
        raise CommandError(f"`{place / there[0]}` exists already; give an empty folder, or remove it")
    try:
        for path, text in texts.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(text, encoding="utf-8")
    except OSError as error:
        what = f"`{error.filename or place}` cannot be written: {error.strerror}"
        raise CommandError(f"{what}; give a folder that you may write") from None


def _texts(folder: Traversable, above: str = "") -> Iterator[tuple[str, str]]:
    """Where each file of a template is to lie, and its text."""
    for one in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if one.is_dir():
            yield from _texts(one, f"{above}{one.name}/")
        else:
            path = f"{above}{one.name.removesuffix('.txt')}"
            yield _PLACES.get(path, path), one.read_text(encoding="utf-8")


def _orders(now: float) -> str:
    """Lines of orders of the last five minutes; some are of no use, and one is broken."""
    draw = random.Random(7)  # noqa: S311  made-up orders
    end = datetime.fromtimestamp(now, UTC)
    lines = []
    for number in range(_ORDERS):
        time = end - timedelta(seconds=300 * (1 - number / _ORDERS) + draw.random() * 5)
        order = {
            "time": time.isoformat(timespec="milliseconds"),
            "country": draw.choices(["ch", "no", "jp"], [5, 3, 2])[0],
            "cents": draw.randint(-50, 20_000),
        }
        lines.append(json.dumps(order))
    lines[_BROKEN] = '{"time": "yesterday"}'
    return "".join(f"{line}\n" for line in lines)
