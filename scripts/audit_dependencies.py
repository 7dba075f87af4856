"""Ask for known weaknesses of what the locks pin: `python scripts/audit_dependencies.py TOOLS`.

TOOLS: the folder of the programs of `requirements/audit.txt`. pip-audit passes over a package that its
service does not know, and ends with 0. So the packages that it knew are counted here. Where it knew none, the
service cannot be reached: that is said, nothing was checked, and it is no failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCKS = ("run", "dev")
_SECONDS = 120


def judged(name: str, answer: str, complaint: str) -> tuple[str, bool]:
    """What an answer of pip-audit about a lock says, and whether it names a weakness."""
    try:
        packages: list[dict[str, Any]] = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (complaint.strip().splitlines() or ["no answer"])[-1][:300]
        return f"{name}: NOT CHECKED: pip-audit cannot ask its service: {last}", False
    known = [one for one in packages if "skip_reason" not in one]
    weak = [one for one in known if one.get("vulns")]
    if not known:
        return f"{name}: NOT CHECKED: the service knows none of {len(packages)} packages here", False
    lines = [f"{name}: {len(known)} of {len(packages)} packages checked, {len(weak)} have known weaknesses"]
    for one in weak:
        names = ", ".join(weakness["id"] for weakness in one["vulns"])
        lines.append(f"  {one['name']} {one['version']}: {names}")
    return "\n".join(lines), bool(weak)


def main(tools: Path) -> int:
    """Ask about each lock; 1 if one has a known weakness."""
    fails = False
    for name in LOCKS:
        lock = ROOT / "requirements" / f"{name}.lock"
        command: list[str | Path] = [
            tools / "pip-audit",
            "-r",
            lock,
            "--disable-pip",
            "--no-deps",
            "--timeout",
            "5",
        ]
        command += ["--progress-spinner", "off", "-f", "json"]
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_SECONDS)
            text, weak = judged(f"requirements/{name}.lock", done.stdout, done.stderr)
        except subprocess.TimeoutExpired:
            text, weak = judged(f"requirements/{name}.lock", "", f"no answer within {_SECONDS} s")
        print(text)
        fails = fails or weak
    return int(fails)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
