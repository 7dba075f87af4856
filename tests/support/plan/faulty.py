"""What is wrong with faulty applications: the form in which they are listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ridgeline.api import Application


@dataclass(frozen=True)
class Faulty:
    """An application and the texts of all its faults, in order; ` ... ` stands for any text."""

    name: str
    build: Callable[[], Application]
    faults: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Listing:
    """Collects faulty applications: `@listing(fault, fault, ...)` on a function that builds one."""

    cases: list[Faulty] = field(default_factory=list)

    def __call__(
        self,
        *faults: str,
        properties: Mapping[str, str] | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Callable[[Callable[[], Application]], Callable[[], Application]]:
        def note(build: Callable[[], Application]) -> Callable[[], Application]:
            self.cases.append(Faulty(build.__name__, build, faults, properties or {}, attributes or {}))
            return build

        return note


def are(faults: Iterable[object], expected: Sequence[str]) -> bool:
    """True if these are the expected faults."""
    texts = [str(fault) for fault in faults]
    return len(texts) == len(expected) and all(map(_is, texts, expected))


def _is(text: str, expected: str) -> bool:
    first, between, last = expected.partition(" ... ")
    return text == expected or (bool(between) and text.startswith(first) and text.endswith(last))
