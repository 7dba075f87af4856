"""Templates: named sets of values, for operators that name them or whose name or class they match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ridgeline.api.errors import Fault, did_you_mean
from ridgeline.api.support.patterns import Pattern
from ridgeline.settings.layers import Setting
from ridgeline.settings.targets import Target

_NAME, _CLASS = "match_name", "match_class"
_MATCHES = {_NAME: _NAME, _CLASS: _CLASS, "matchIdRegExp": _NAME, "matchClassNameRegExp": _CLASS}
_MOST = 200


@dataclass(slots=True, eq=False)
class Template:
    """One template: its expressions by what they match, and its values."""

    matches: dict[str, Pattern] = field(default_factory=dict)
    values: list[Setting] = field(default_factory=list)

    def fits(self, target: Target) -> bool:
        """True if it has expressions, and the target fits all of them."""
        name, kind = self.matches.get(_NAME), self.matches.get(_CLASS)
        return bool(self.matches) and (
            (name is None or name.matches(target.name))
            and (kind is None or any(map(kind.matches, target.classes)))
        )


class Templates:
    """All templates by name."""

    def __init__(self, templates: dict[str, Template]) -> None:
        self._templates = templates

    @classmethod
    def of(cls, settings: Sequence[Setting], faults: list[Fault]) -> Templates:
        """The templates that settings make; adds faults for expressions that are none."""
        found: dict[str, Template] = {}
        chosen: dict[tuple[str, str], tuple[Any, Setting]] = {}
        for setting in settings:
            name, _, key = setting.path.partition(".")
            template = found.setdefault(name, Template())
            if key not in _MATCHES:
                template.values.append(setting)
                continue
            rank = (setting.level, bool(setting.application), setting.position)
            before = chosen.get((name, _MATCHES[key]))
            if before is None or before[0] < rank:
                chosen[name, _MATCHES[key]] = rank, setting
        matching: set[str] = set()
        for (name, what), (_, setting) in chosen.items():
            matching.add(name)
            if len(matching) > _MOST:
                several = f"more than {_MOST} templates have expressions"
                faults.append(setting.fault(several, "use fewer, or name them in operators"))
                break
            try:
                found[name].matches[what] = _pattern(setting.value)
            except ValueError as error:
                faults.append(setting.fault(str(error), "mend it; it must match the whole name"))
                found[name].matches.clear()
        return cls(found)

    def names(self, setting: Setting, faults: list[Fault]) -> Sequence[str]:
        """The templates that an operator names: one, several with commas, or a list. Adds faults."""
        value = setting.value
        given = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
        names = [str(name).strip() for name in given]
        faults += [
            setting.fault(f"there is no template `{name}`", did_you_mean(name, self._templates))
            for name in names
            if name not in self._templates
        ]
        return [name for name in names if name in self._templates]

    def of_target(self, target: Target, named: Sequence[str]) -> Iterator[tuple[int, Setting]]:
        """The values for one target, each with a weight: 0 if it matches, 1 and more if it is named."""
        for name, template in self._templates.items():
            if name in named or template.fits(target):
                weight = named.index(name) + 1 if name in named else 0
                for setting in template.values:
                    yield weight, setting

    def values(self) -> Iterator[Setting]:
        """All values of all templates."""
        for template in self._templates.values():
            yield from template.values


def _pattern(value: object) -> Pattern:
    """A regular expression. Raises ValueError for what is none."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no regular expression")  # noqa: TRY004  as of one that is wrong
    return Pattern(value)
