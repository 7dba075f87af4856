"""The command: `python -m ridgeline.testing.services kafka postgres` starts servers until Ctrl-C."""

import argparse
import contextlib
import signal
import sys
from collections.abc import Sequence

from ridgeline.testing.services import SERVICES, Service, ServiceError, Unavailable


def main(arguments: Sequence[str] | None = None) -> int:
    """Start or list services; 0 if all went well."""
    parser = argparse.ArgumentParser(
        prog="python -m ridgeline.testing.services",
        description="Start real servers on this host, print their addresses as variables of an environment, "
        "end them at Ctrl-C. Without names: list them.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SERVICES))
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in SERVICES]:
        parser.error(f"no service `{unknown[0]}`; there are {', '.join(SERVICES)}")
    kinds = [SERVICES[name] for name in options.names or SERVICES]
    if options.names:
        return _start(kinds)
    for kind in kinds:
        _say(f"{kind.NAME:<10} {kind.available() or 'can be started'}")
    return 0


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - how a command speaks


def _start(kinds: Sequence[type[Service]]) -> int:
    """Start them, print their addresses, end them at Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as started, contextlib.suppress(KeyboardInterrupt):
        for kind in kinds:
            try:
                service = started.enter_context(kind())
            except (ServiceError, Unavailable) as error:
                print(f"error: {error}", file=sys.stderr)  # noqa: T201
                return 1
            for name, value in service.addresses().items():
                _say(f"{name}={value}")
        print("all are up; Ctrl-C ends them and removes their data", file=sys.stderr)  # noqa: T201
        while True:
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
