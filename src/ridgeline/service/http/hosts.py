"""Which hosts a request may name.

A page of an attacker that resolves to this machine (DNS rebinding) names another host.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hosts:
    """Names and addresses, in lower case, that a web service answers to.

    `any_address`: it listens on all addresses of this machine.
    """

    names: frozenset[str]
    any_address: bool = False

    @classmethod
    def of(cls, bound: str, given: str, allowed: Collection[str] = ()) -> Hosts:
        """The hosts of a service bound to `bound`, which was given as `given`, and those allowed besides."""
        unspecified = ipaddress.ip_address(bound).is_unspecified
        own = {socket.gethostname(), socket.getfqdn()} if unspecified else {bound}
        return cls(
            frozenset(_plain(name) for name in ("localhost", "127.0.0.1", "::1", given, *own, *allowed)),
            unspecified,
        )

    def answers_to(self, host: str) -> bool:
        """True if a `Host` header has one of the names, with any port; any address if it listens on all.

        >>> hosts = Hosts.of("127.0.0.1", "127.0.0.1")
        >>> [
        ...     hosts.answers_to(host)
        ...     for host in ("127.0.0.1:4040", "app.localhost", "[::1]:80", "evil.example", "10.0.0.5", "")
        ... ]
        [True, True, True, False, False, False]
        """
        name = _plain(_without_port(host))
        return name in self.names or name.endswith(".localhost") or (self.any_address and _is_address(name))


def _without_port(host: str) -> str:
    head, colon, port = host.rpartition(":")
    return head if colon and port.isdigit() and (":" not in head or head.endswith("]")) else host


def _plain(name: str) -> str:
    """In lower case, without brackets or a final dot; an address as it is usually written."""
    text = name.strip().lower().removeprefix("[").removesuffix("]").removesuffix(".")
    return str(ipaddress.ip_address(text)) if _is_address(text) else text


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
