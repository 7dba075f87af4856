"""Renew the libraries that the page brings along: `python scripts/renew_vendored.py`; `--check` only looks.

Versions are said in `LIBRARIES`. Files are taken from their packages as they are, with `npm pack`, and
`vendor/README.md` says what each is, with its hash.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).parents[1] / "src/ridgeline/service/page/assets/vendor"
README = VENDOR / "README.md"
HEAD = """# Libraries of the page

Built files of others, unchanged, so that the page needs no network and no build. This table is made by
`python scripts/renew_vendored.py`, which also takes newer versions; `--check` compares the hashes.

| file | from | version | licence | SHA-256 |
| --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Library:
    """A package. `files`: its files that are taken, by the name that they have here."""

    package: str
    version: str
    licence: str
    files: dict[str, str]


LIBRARIES = (
    Library(
        "htm",
        "3.1.1",
        "Apache-2.0; with Preact, MIT",
        {"preact.js": "preact/standalone.module.js", "htm.LICENSE.txt": "LICENSE"},
    ),
    Library("preact", "10.5.7", "MIT", {"preact.LICENSE.txt": "LICENSE"}),
    Library(
        "@dagrejs/dagre",
        "3.1.3",
        "MIT",
        {"dagre.js": "dist/dagre.esm.js", "dagre.LICENSE.txt": "dist/dagre.esm.js.LEGAL.txt"},
    ),
)


def main(arguments: list[str]) -> int:
    """Renew the files, or compare them; returns the exit status."""
    if arguments == ["--check"]:
        wrong = differences()
        print("\n".join(wrong) or "all files are as the table says")
        return bool(wrong)
    with tempfile.TemporaryDirectory() as folder:
        for library in LIBRARIES:
            _take(library, Path(folder))
    README.write_text(table(), encoding="utf-8")
    return 0


def _take(library: Library, folder: Path) -> None:
    packed = subprocess.run(
        ["npm", "pack", "--silent", f"{library.package}@{library.version}"],  # noqa: S607
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    with tarfile.open(folder / packed.stdout.strip().splitlines()[-1]) as archive:
        for name, inside in library.files.items():
            file = archive.extractfile(f"package/{inside}")
            if file is None:
                raise SystemExit(f"{library.package} {library.version} has no file {inside}")
            (VENDOR / name).write_bytes(file.read())


def table() -> str:
    """The text of the README, by the files as they are."""
    rows = [
        f"| `{name}` | `{inside}` of {library.package} | {library.version} | {library.licence} "
        f"| `{hashlib.sha256((VENDOR / name).read_bytes()).hexdigest()}` |"
        for library in LIBRARIES
        for name, inside in library.files.items()
    ]
    return HEAD + "\n".join(rows) + "\n"


def differences() -> list[str]:
    """The files that are not as the README says, and those that it does not name."""
    known = {name for library in LIBRARIES for name in library.files} | {README.name}
    found = {path.name for path in VENDOR.iterdir()}
    wrong = [f"`{name}` is missing" for name in sorted(known - found)]
    wrong += [f"`{name}` is in no library of the script" for name in sorted(found - known)]
    if not wrong and README.read_text(encoding="utf-8") != table():
        wrong.append("a file or the table of `README.md` was changed; run the script again")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
