"""Configuration in files: those of the site, of the user, and those that the command names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ridgeline.api.errors import Fault, UntrustedError, ValidationError
from ridgeline.api.support import trust
from ridgeline.settings.environment import variable_layers
from ridgeline.settings.layers import Layer, flat

SITE, USER, FILE = "site file", "user file", "conf file"
COMMAND = "command line"
NO_FILES = "RIDGELINE_NO_CONFIG"
"""The variable of the environment by which site and user files are left out."""
_OF_SITE = Path("/etc/ridgeline")
_STEM = "ridgeline"


def outer_layers(
    environment: Mapping[str, str], conf_files: Sequence[str], *, automatic: bool, faults: list[Fault]
) -> list[Layer]:
    """The layers of site, user, `--conf-file` and environment, the lowest first.

    `automatic`: with the files of site and user. Adds a fault for each file that cannot be read.
    """
    found: list[Layer] = []
    if automatic and environment.get(NO_FILES, "") in {"", "0"}:
        for name, folder in _folders(environment):
            found += _guarded(name, _in_folder(folder), faults)
    for file in conf_files:
        found += _guarded(FILE, [Path(file)], faults)
    return [*found, *variable_layers(environment)]


def command_layers(properties: Mapping[str, str], attributes: Mapping[str, str]) -> list[Layer]:
    """The layers of `-D` and `--attribute`; attributes without an operator are the application's."""
    of_attributes = {_attribute_key(key): value for key, value in attributes.items()}
    return [
        Layer(
            COMMAND, "-D", {f"operator.{key}": value for key, value in properties.items()}, only="property"
        ),
        Layer(COMMAND, "--attribute", of_attributes, only="attribute"),
    ]


def _attribute_key(key: str) -> str:
    return f"operator.{key}" if "." in key else f"application.{key}"


def _guarded(name: str, files: Sequence[Path], faults: list[Fault]) -> list[Layer]:
    """The layers of files; those of site and user must be trusted. Adds faults."""
    found: list[Layer] = []
    strict = name == FILE
    if len(files) > 1:
        names = ", ".join(f"`{file.name}`" for file in files)
        what = f"the folder has several configurations: {names}"
        faults.append(Fault(str(files[0].parent), what, "keep one of them"))
        return found
    for file in files:
        try:
            if not strict:
                trust.check(str(file), f"configuration `{file}`", "give `--no-config` to leave it out")
            from ridgeline.settings.documents import read_included_first  # parsers are for who has a file

            read = read_included_first(file)
            found += [Layer(name, str(one), flat(document), strict=strict) for one, document in read]
        except ValidationError as error:
            faults += error.faults
        except (UntrustedError, OSError) as error:
            faults.append(Fault(str(file), str(error), "fix that, or give `--no-config` to leave it out"))
    return found


def _in_folder(folder: Path) -> list[Path]:
    """The configuration files of a folder."""
    try:
        found = sorted(file for file in folder.iterdir() if file.stem == _STEM)
    except OSError:  # there is no such folder, or it is not for this user
        return []
    from ridgeline.plan.spec.form import form_of

    return [file for file in found if form_of(file.name) is not None]


def _folders(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """The folders of site and user, the least important first."""
    yield SITE, _OF_SITE
    for folder in reversed((environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")):
        if folder.startswith("/"):
            yield SITE, Path(folder, _STEM)
    home = environment.get("XDG_CONFIG_HOME", "")
    if not home.startswith("/") and environment.get("HOME", "").startswith("/"):
        home = f"{environment['HOME']}/.config"
    if home:
        yield USER, Path(home, _STEM)
