"""Write the bill of materials of a release: `python scripts/make_sbom.py TOOLS OUT`, or `make sbom`.

TOOLS: the folder of the programs of `requirements/audit.txt`. OUT: the file, as JSON of CycloneDX. It has
what `requirements/run.lock` pins, with hashes and licences, and the libraries that the page brings along.
Licences are those that the installed packages declare. The file is checked by CycloneDX's own schema.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
VENDORED = ROOT / "src" / "ridgeline" / "service" / "page" / "assets" / "vendor"
_CHECK = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
fault = JsonStrictValidator(SchemaVersion.from_version(sys.argv[1])).validate_str(sys.stdin.read())
sys.exit(f"error: the bill does not fit the schema of CycloneDX: {fault}"[:2000] if fault else 0)
"""


def vendored(readme: str) -> list[dict[str, Any]]:
    """The components of the table of vendored files. Raises ValueError for a line that is none."""
    found = []
    for line in readme.splitlines():
        if not line.startswith("| `"):
            continue
        file, origin, version, licence, digest = (cell.strip(" `") for cell in line.strip("|").split("|"))
        if not file.endswith(".js"):
            continue  # the text of a licence
        found.append(
            {
                "type": "file",
                "bom-ref": f"vendored-{file}",
                "name": file,
                "version": version,
                "description": origin.replace("`", ""),
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "licenses": [{"license": {"name": licence}}],
            }
        )
    return found


def declared(name: str, version: str) -> str:
    """The licence that the installed package declares; empty if it is not installed, or says none."""
    try:
        about = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
    if about.version != version:
        return ""
    said: Any = about.metadata  # of the type of e-mails, which its stub does not say
    kinds = [
        one.rpartition(" :: ")[2]
        for one in said.get_all("Classifier") or ()
        if one.startswith("License :: ") and one.count(" :: ") > 1
    ]
    return (
        said.get("License-Expression")
        or ", ".join(kinds)
        or (said.get("License") or "").partition("\n")[0][:80]
    )


def main(tools: Path, out: Path) -> None:
    """Write and check the bill."""
    command: list[str | Path] = [tools / "cyclonedx-py", "requirements", ROOT / "requirements" / "run.lock"]
    command += ["--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "--of", "JSON"]
    bill = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for one in bill["components"]:
        one.pop("description", None)  # the line of the lock, which says the same again
        if licence := declared(one["name"], one["version"]):
            one["licenses"] = [{"license": {"name": licence}}]
    bill["components"] += vendored((VENDORED / "README.md").read_text(encoding="utf-8"))
    text = json.dumps(bill, indent=2) + "\n"
    check = [tools / "python", "-c", _CHECK, bill["specVersion"]]
    if subprocess.run(check, input=text.encode(), check=False).returncode:
        sys.exit(1)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    print(f"{out}: {len(bill['components'])} components, checked by the schema {bill['specVersion']}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
