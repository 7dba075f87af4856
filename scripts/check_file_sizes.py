"""Keep files small: a file that a reader cannot take in at one sitting has two subjects."""

import sys
from pathlib import Path
from statistics import median

MAX_LINES = 600  # of any file in src and tests
NINE_OF_TEN_LINES = 400  # of files in src
MEDIAN_LINES = 150  # of files in src


def line_counts(folder: Path) -> dict[Path, int]:
    """Count the lines of every Python file below `folder`; empty files are left out."""
    counts = {
        path: len(path.read_text(encoding="utf-8").splitlines()) for path in sorted(folder.rglob("*.py"))
    }
    return {path: lines for path, lines in counts.items() if lines}


def faults(root: Path) -> list[str]:
    """Return what is wrong with the sizes of the files below `root`, one sentence each."""
    src = line_counts(root / "src")
    found = [
        f"file too long: at most {MAX_LINES} lines; got {lines} in `{path.relative_to(root)}`; split it"
        for path, lines in (src | line_counts(root / "tests")).items()
        if lines > MAX_LINES
    ]
    long = [
        f"`{path.relative_to(root)}` ({lines})" for path, lines in src.items() if lines >= NINE_OF_TEN_LINES
    ]
    if len(long) * 10 > len(src):
        rule = f"too many long files in `src`: nine of ten stay under {NINE_OF_TEN_LINES} lines"
        found.append(f"{rule}; got {len(long)} of {len(src)} at or above; split some of {', '.join(long)}")
    if src and (middle := median(src.values())) >= MEDIAN_LINES:
        rule = f"files in `src` too long on the whole: the median stays under {MEDIAN_LINES} lines"
        found.append(f"{rule}; got {middle:g}; split the longest")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(faults(Path(__file__).resolve().parent.parent)) or 0)
