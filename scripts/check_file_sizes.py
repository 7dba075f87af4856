"""Keep files small: a file that a reader cannot take in at one sitting has two subjects."""

import sys
from pathlib import Path

MAX_LINES = 800  # of any file in src and tests


def line_counts(folder: Path) -> dict[Path, int]:
    """Count the lines of every Python file below `folder`; empty files are left out."""
    counts = {
        path: len(path.read_text(encoding="utf-8").splitlines()) for path in sorted(folder.rglob("*.py"))
    }
    return {path: lines for path, lines in counts.items() if lines}


def faults(root: Path) -> list[str]:
    """Return what is wrong with the sizes of the files below `root`, one sentence each."""
    return [
        f"file too long: at most {MAX_LINES} lines; got {lines} in `{path.relative_to(root)}`; split it"
        for folder in ("src", "tests")
        for path, lines in line_counts(root / folder).items()
        if lines > MAX_LINES
    ]


if __name__ == "__main__":
    sys.exit("\n".join(faults(Path(__file__).resolve().parent.parent)) or 0)
