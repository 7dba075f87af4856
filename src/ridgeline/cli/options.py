"""Values of options that typer does not know: assignments (`-D`, `--attribute`, `--conf`), masters, logs."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.api.support.masking import mask_text
from ridgeline.cli.errors import CommandError


def assignments(
    option: str, texts: Sequence[str], form: str, example: str, *, dotted: bool = False, filled: bool = False
) -> dict[str, str]:
    """`name=value` texts as a mapping; of a name that is given twice the last value counts.

    Raises CommandError naming the form.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        parts = name.split(".", 1)
        both = len(parts) == 2 and all(parts)  # noqa: PLR2004  operator and property
        if not equals or not name or (dotted and not both) or (filled and not value):
            raise CommandError(
                f"`{option}` takes `{form}`; got `{mask_text(text)}`; for example `{option} {example}`"
            )
        found[name] = value
    return found


def properties(texts: Sequence[str]) -> dict[str, str]:
    """The values of `-D`. Raises CommandError."""
    return assignments("-D", texts, "operator.property=value", "payments.count=1000", dotted=True)


def attributes(texts: Sequence[str]) -> dict[str, str]:
    """The values of `--attribute`; without an operator's name they are the application's.

    Raises CommandError.
    """
    return assignments("--attribute", texts, "operator.name=value", "balances.partitions=3")


def check_master(master: str) -> str:
    """Refuse what cannot be a Spark master before Spark is started. Raises CommandError."""
    forms = "give `local[4]`, `local[*]`, `spark://host:7077`, `yarn` or `k8s://https://host:6443`"
    if master.startswith("sc://"):
        raise CommandError(
            f"`--master {master}` is Spark Connect, which is not supported: slots are RDD jobs, which "
            f"need a classic driver; {forms}"
        )
    if "://" not in master and master != "yarn" and not master.startswith("local"):
        raise CommandError(f"`--master {master}` is no Spark master; {forms}")
    return master


def nothing_given(target: str, given: Sequence[str]) -> None:
    """Refuse options beside an application that runs. Raises CommandError."""
    if given:
        raise CommandError(f"`{target}` runs: what it was given is known; leave `{given[0]}` out")
