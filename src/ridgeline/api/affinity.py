"""Affinity rules: which operators run near each other, and which apart."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ridgeline.api.attributes import Locality, LocalityName
from ridgeline.api.operator import Operator


class AffinityType(enum.StrEnum):
    """Whether operators run together or apart.

    Example:
        >>> from ridgeline import AffinityRule, AffinityType
        >>> rule = AffinityRule(AffinityType.ANTI_AFFINITY, ["source", "store"])
    """

    AFFINITY = "AFFINITY"
    ANTI_AFFINITY = "ANTI_AFFINITY"


@dataclass(frozen=True)
class AffinityRule:
    """Operators that run together, or apart: `app.add_affinity(AffinityRule("AFFINITY", ["check", "log"]))`.

    `operators`: two or more, by name or as added. The same one twice means its partitions. A module's name
    means all of its operators. `pattern`: a regular expression for whole names, in place of `operators`.
    `locality`: what they share, or do not: a container, a host or a rack. `relax`: True gives the rule up
    where it cannot be kept; the plan says so. `hosts`: names of hosts, or of racks if `locality` is
    RACK_LOCAL. The operators run on these hosts only, or on none of them. One operator is enough then.

    In a container, partition 0 is with partition 0, and so on. On a host or a rack all partitions are
    together; apart means that no partition of one is where a partition of another is.

    Example:
        >>> from ridgeline import AffinityRule
        >>> apart = AffinityRule("ANTI_AFFINITY", pattern="store.*", locality="CONTAINER_LOCAL")
        >>> apart.relax
        False
        >>> near_the_disks = AffinityRule("AFFINITY", ["store"], hosts=["alpha", "beta"])
    """

    type: AffinityType | Literal["AFFINITY", "ANTI_AFFINITY", "affinity", "anti_affinity"]
    operators: Sequence[str | Operator] = ()
    pattern: str | None = None
    locality: Locality | LocalityName = "NODE_LOCAL"
    relax: bool = False
    hosts: Sequence[str] = ()
