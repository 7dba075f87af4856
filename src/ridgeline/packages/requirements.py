"""Requirements of a package, and which are installed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement that holds here. `found`: the installed version, None if there is none."""

    requirement: str
    found: str | None
    met: bool


def needs(requirements: Iterable[Requirement], extras: Sequence[str] = ()) -> Iterator[Need]:
    """The requirements that hold for this Python and platform, each with what is installed.

    Those of installed distributions are followed where a requirement asks for their extras.
    """
    waiting = [(requirement, frozenset(extras)) for requirement in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement, chosen = waiting.pop(0)
        if (str(requirement), chosen) in seen or not _holds(requirement, chosen):
            continue
        seen.add((str(requirement), chosen))
        try:
            installed = importlib.metadata.distribution(canonicalize_name(requirement.name))
        except importlib.metadata.PackageNotFoundError:
            yield Need(str(requirement), None, met=False)
            continue
        met = requirement.specifier.contains(installed.version, prereleases=True)
        yield Need(str(requirement), installed.version, met)
        if requirement.extras:
            inner = [Requirement(text) for text in installed.requires or ()]
            asked = frozenset(requirement.extras)
            waiting += [
                (one, asked) for one in inner if one.marker is not None and not _holds(one, frozenset())
            ]


def _holds(requirement: Requirement, extras: frozenset[str]) -> bool:
    """True if a requirement's marker is true here, with one of the extras or none."""
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in extras or [""])
