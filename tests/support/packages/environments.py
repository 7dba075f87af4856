"""Environments for workers: one that has nothing, and an archive of one that has what Ridgeline needs."""

import io
import os
import sys
import tarfile
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

import ridgeline

_LEFT_OUT = ("__pycache__", "/tests/", "/include/")


def bare_environment(folder):
    """A virtual environment without any package; its Python."""
    python = Path(folder) / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(os.path.realpath(sys.executable))
    (Path(folder) / "pyvenv.cfg").write_text(_configuration())
    return python


def pack_environment(path, *names):
    """An archive such as venv-pack makes: Ridgeline and `names` with what they require but for pyspark."""
    version = "python{}.{}".format(*sys.version_info)
    site = f"lib/{version}/site-packages"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        _add_text(archive, "pyvenv.cfg", _configuration())
        link = tarfile.TarInfo("bin/python")
        link.type, link.linkname = tarfile.SYMTYPE, os.path.realpath(sys.executable)
        archive.addfile(link)
        archive.add(Path(ridgeline.__file__).parent, f"{site}/ridgeline", filter=_kept)
        for one in _required(["ridgeline", *names]):
            for file in distribution(one).files or []:
                source = Path(distribution(one).locate_file(file))
                inside = os.path.normpath(f"{site}/{file}")
                if inside.startswith(site) and source.is_file() and one != "ridgeline":
                    archive.add(source, inside, filter=_kept)
    return path


def _required(names):
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name in found or name == "pyspark":  # Spark brings its own
            continue
        found.add(name)
        requirements = map(Requirement, distribution(name).requires or [])
        waiting += [
            one.name for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})
        ]
    return sorted(found)


def _kept(member):
    return None if any(part in member.name for part in _LEFT_OUT) else member


def _configuration():
    home = Path(os.path.realpath(sys.executable)).parent
    return f"home = {home}\ninclude-system-site-packages = false\n"


def _add_text(archive, name, text):
    member = tarfile.TarInfo(name)
    member.size = len(text)
    archive.addfile(member, io.BytesIO(text.encode()))
