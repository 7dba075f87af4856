"""Wheels, whole ones and others, made without a build tool."""

import base64
import hashlib
import tomllib
import zipfile
from pathlib import Path

from support.paths import ROOT

SHOP = ROOT / "examples" / "shop"

APPLICATION = '''
from ridgeline import Application
from ridgeline.operators import ConsoleOutput, RandomEventGenerator


def application(count: int = 3):
    """Roll dice.

    More of it.
    """
    app = Application("dice")
    dice = app.add_operator("dice", RandomEventGenerator(count=count))
    console = app.add_operator("console", ConsoleOutput())
    app.add_stream("rolls", dice.integer_data, console.input)
    return app
'''
ENTRY_POINTS = "[ridgeline.applications]\ndice = casino.app:application\n"
FILES = {"casino/__init__.py": "", "casino/app.py": APPLICATION}


def write_wheel(
    folder,
    files=None,
    *,
    name="casino",
    version="1.0",
    tag="py3-none-any",
    entry_points=ENTRY_POINTS,
    metadata="",
    suffix="whl",
    **changes,
):
    """A wheel of these files; `changes` replace files of the metadata, None leaves one out."""
    info = f"{name}-{version}.dist-info"
    whole = dict(FILES if files is None else files)
    parts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
        "entry_points.txt": entry_points,
    }
    parts |= {part.replace("entry_points", "entry_points.txt"): text for part, text in changes.items()}
    record = parts.pop("RECORD", "")
    whole |= {f"{info}/{part}": text for part, text in parts.items() if text is not None}
    if record is not None:
        rows = [f"{path},{digest(text)},{len(text)}" for path, text in whole.items()]
        whole[f"{info}/RECORD"] = record or "\n".join([*rows, f"{info}/RECORD,,", ""])
    path = Path(folder) / f"{name}-{version}-{tag}.{suffix}"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for inside, text in whole.items():
            file.writestr(inside, text)
    return path


def digest(text):
    """As a list of files has it."""
    data = text if isinstance(text, bytes) else text.encode()
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def build_shop(folder, version="1.2", **changes):
    """The wheel of `examples/shop`, as a build tool makes it; `changes`: other files, by path."""
    project = tomllib.loads((SHOP / "pyproject.toml").read_text())["project"]
    source = SHOP / "src"
    files = {
        path.relative_to(source).as_posix(): path.read_text()
        for path in sorted(source.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    groups = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    )
    metadata = f"Summary: {project['description']}\nRequires-Python: {project['requires-python']}\n"
    metadata += "".join(f"Requires-Dist: {requirement}\n" for requirement in project["dependencies"])
    return write_wheel(
        folder, files | changes, name="shop", version=version, entry_points=groups, metadata=metadata
    )
