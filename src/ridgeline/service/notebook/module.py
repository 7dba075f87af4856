"""The page's modules as one text, which anywidget takes: a notebook has no address to import them from.

Each module becomes a function that is called once, after those that it imports. Its exports are values
by then, so modules must not import each other in a circle, nor export what changes.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Final

from ridgeline.service.page.assets import FOLDER

_ENTRY: Final = "notebook/cell.js"
_LICENCES: Final = ("preact", "dagre")
_IMPORT: Final = re.compile(
    r'^import\s+(?P<what>[^"\';]*?)\s+from\s+"(?P<path>[^"]+)"(?P<style>\s+with\s*\{[^}]*\})?;[ \t]*\n?',
    re.MULTILINE,
)
_DECLARED: Final = re.compile(
    r"^export\s+(?P<rest>(?:async\s+function|function|class|const)\s+(?P<name>[\w$]+))", re.MULTILINE
)
_LISTED: Final = re.compile(r"(?:^|(?<=[;}]))export\s*\{(?P<names>[^}]*)\};?", re.MULTILINE)
_DEFAULT: Final = re.compile(r"^export\s+default\s+", re.MULTILINE)
_WORKER: Final = re.compile(r'new URL\("(?P<path>[^"]+\.js)", import\.meta\.url\)')
_LEFT: Final = re.compile(r"^(?:import|export)\b.*|\bimport\s*[.(].*", re.MULTILINE)
_SOURCE_MAP: Final = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)
_HELPERS: Final = """\
const $address = (text) => URL.createObjectURL(new Blob([text], {type: "text/javascript"}));
const $style = (text) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  return sheet;
};
"""


@cache
def widget_module() -> str:
    """The module of the widget: all that `notebook/cell.js` imports, and the licences of others' parts."""
    licences = [(FOLDER / "vendor" / f"{name}.LICENSE.txt").read_text(encoding="utf-8") for name in _LICENCES]
    head = "With htm, Apache-2.0, and:\n\n" + "\n".join(licences)
    return f"/* {head.replace('*/', '')} */\n" + bundled(FOLDER, _ENTRY)


def bundled(folder: Path, entry: str) -> str:
    """A module and all that it imports as the text of one module, which exports its default.

    Args:
        folder: All of the modules are in it.
        entry: The path of the module within the folder.

    Raises:
        ValueError: If modules import each other in a circle, what no module of the folder exports, or by an
            address of a run.
    """
    bundle = _Bundle(folder.resolve())
    place = bundle.place(entry, ())
    return f"{_HELPERS}{''.join(bundle.parts)}export default {place}.default;\n"


class _Bundle:
    """Modules in the order in which they are called."""

    def __init__(self, folder: Path) -> None:
        self.parts: list[str] = []
        self._folder = folder
        self._places: dict[str, str] = {}
        self._exports: dict[str, set[str]] = {}

    def place(self, name: str, importers: tuple[str, ...]) -> str:
        """The name of the constant that has what a module exports. `importers`: who leads to it."""
        if name in importers:
            circle = " -> ".join([*importers[importers.index(name) :], name])
            raise ValueError(f"modules of the page import each other in a circle: {circle}")
        if name not in self._places:
            text = self._style(name) if name.endswith(".css") else self._module(name, importers)
            self._places[name] = f"$m{len(self._places)}"
            self.parts.append(f"const {self._places[name]} = {text};\n")
        return self._places[name]

    def _module(self, name: str, importers: tuple[str, ...]) -> str:
        """The call that makes what a module exports."""
        exports: dict[str, str] = {}

        def imported(match: re.Match[str]) -> str:
            other = self._beside(name, match["path"])
            place = self.place(other, (*importers, name))
            bound = _bound(match["what"], place, is_style=bool(match["style"]))
            missing = _wanted(match["what"]) - self._exports[other]
            if missing:
                raise ValueError(f"{name} imports {min(missing)} of {other}, which does not export it")
            return bound

        def declared(match: re.Match[str]) -> str:
            exports[match["name"]] = match["name"]
            return match["rest"]

        def listed(match: re.Match[str]) -> str:
            for one in filter(None, (part.strip() for part in match["names"].split(","))):
                own, _, shown = (word.strip() for word in one.partition(" as "))
                exports[shown or own] = own
            return ""

        def default(_: re.Match[str]) -> str:
            exports["default"] = "$default"
            return "const $default = "

        def worker(match: re.Match[str]) -> str:
            inner = _Bundle(self._folder)
            inner.place(self._beside(name, match["path"]), (*importers, name))
            return f"$address({json.dumps(''.join(inner.parts))})"

        text = _SOURCE_MAP.sub("", self._text(name))
        replaced = ((_IMPORT, imported), (_DECLARED, declared), (_LISTED, listed), (_DEFAULT, default))
        for pattern, replacement in replaced:
            text = pattern.sub(replacement, text)
        left = _LEFT.search(_WORKER.sub("", text))
        if left:
            raise ValueError(f"a notebook's widget cannot have this of {name}: {left[0][:100]}")
        text = _WORKER.sub(worker, text)
        self._exports[name] = set(exports)
        found = ", ".join(f"{shown}: {own}" for shown, own in exports.items())
        return f"(() => {{\n{text.strip()}\nreturn {{{found}}};\n}})()"

    def _style(self, name: str) -> str:
        """The call that makes a style sheet, whose roots are the element that has the widget's shadow."""
        text = re.sub(r":root(\[[^\]]*\])", r":host(\1)", self._text(name)).replace(":root", ":host")
        self._exports[name] = {"default"}
        return f"{{default: $style({json.dumps(text)})}}"

    def _text(self, name: str) -> str:
        return (self._folder / name).read_text(encoding="utf-8")

    def _beside(self, importer: str, path: str) -> str:
        """The name of what a module imports. Raises ValueError if it is not in the folder."""
        found = (self._folder / importer).parent.joinpath(path).resolve()
        if not path.startswith(".") or not found.is_relative_to(self._folder) or not found.is_file():
            raise ValueError(f"{importer} imports {path}, which is no file of the page")
        return found.relative_to(self._folder).as_posix()


def _wanted(what: str) -> set[str]:
    """The exports that an import must find: a browser refuses a module that lacks one."""
    if what.startswith("*"):
        return set()
    if not what.startswith("{"):
        return {"default"}
    return {one.partition(" as ")[0].strip() for one in what.strip("{}").split(",")} - {""}


def _bound(what: str, place: str, *, is_style: bool) -> str:
    """The statement that binds the names of an import: `{a, b as c}`, `* as name`, or `name`."""
    if what.startswith("{"):
        names = re.sub(r"\s+as\s+", ": ", what)
        return f"const {names} = {place};\n"
    if what.startswith("*"):
        return f"const {what.rpartition(' ')[2]} = {place};\n"
    if is_style or re.fullmatch(r"[\w$]+", what):
        return f"const {what} = {place}.default;\n"
    raise ValueError(f"an import of this form is not known: {what}")
