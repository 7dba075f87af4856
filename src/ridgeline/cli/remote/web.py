"""The command that shows all applications on one page."""

from __future__ import annotations

import contextlib
import threading
import urllib.parse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ridgeline.api.support.secrets.providers import provided_option
from ridgeline.cli.errors import CommandError
from ridgeline.cli.remote.options import Ca, Cert

if TYPE_CHECKING:
    from ridgeline.service.registry import Entry

_ADDRESS = "give `http://host:port`"


def web(
    addresses: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ADDRESS]...",
            help="Addresses of applications that run elsewhere, beside those of this machine.",
            show_default=False,
        ),
    ] = None,
    token: Annotated[
        list[str] | None,
        typer.Option(
            "--token",
            metavar="[ADDRESS=]TOKEN",
            envvar="RIDGELINE_TOKEN",
            help="Token of the application at ADDRESS, or of all addresses that were given. May be repeated.",
            show_default=False,
        ),
    ] = None,
    ca: Ca = None,
    cert: Cert = None,
    port: Annotated[
        int,
        typer.Option("--port", min=0, max=65_535, metavar="PORT", help="Port of the page; 0: a free one."),
    ] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Open it in the browser of this machine.")] = False,
) -> None:
    """Show all applications on one page: each with its sentence, its state and its age.

    They are those of yours on this machine, also the ones that start later, and those at the addresses. The
    page is at an address of this host alone, which the command prints. Ctrl-C ends it; applications continue.

    Example: `ridgeline web http://stream-1:4040 --open`
    """
    from ridgeline.cli.remote.shared import make_console
    from ridgeline.service.http.server import WebServer
    from ridgeline.service.listing.asking import Asking
    from ridgeline.service.listing.web import create_list
    from ridgeline.service.registry import running
    from ridgeline.service.tls.calling import caller_of

    console = make_console()
    calling = partial(caller_of, ca=ca, cert=cert)
    asking = Asking(given(addresses or (), token or ()), running, calling=calling)
    server = WebServer(create_list(asking), port=port)
    with contextlib.closing(server), contextlib.suppress(KeyboardInterrupt):
        address = server.page()
        console.print(Text(f"applications: {address}"), soft_wrap=True)
        console.print(Text(f"token for other browsers: {server.token}; Ctrl-C ends the list"), soft_wrap=True)
        if browser:
            import webbrowser

            webbrowser.open(address)
        threading.Event().wait()


def given(addresses: Sequence[str], tokens: Sequence[str]) -> list[Entry]:
    """Applications at addresses, each with its token.

    A token that does not begin with an address and `=` is that of all. Raises CommandError for what is no
    address, and for more than one token of an address.
    """
    from ridgeline.cli.remote.client import Client
    from ridgeline.service.registry import Entry

    urls = []
    for address in addresses:
        if "@" in address:
            raise CommandError(
                f"`{address.rpartition('@')[2]}` has a user before it; {_ADDRESS}, and `--token TOKEN`"
            )
        urls.append(Client(address).url)
    urls = list(dict.fromkeys(urls))
    of: dict[str, str] = {}
    everywhere: list[str] = []
    for text in tokens:
        head, equals, rest = text.partition("=")
        url = _url(head) if equals else None
        if url in urls:
            of[str(url)] = rest
        else:
            everywhere.append(text)
    if len(everywhere) > 1:
        raise CommandError(
            "`--token` was given more than once without an address; write `--token ADDRESS=TOKEN`"
        )
    for_all = everywhere[0] if everywhere else None
    return [Entry("", "", url, provided_option(of.get(url, for_all), "--token")) for url in urls]


def _url(text: str) -> str | None:
    parts = urllib.parse.urlsplit(text if "://" in text else f"http://{text}")
    return f"{parts.scheme}://{parts.netloc}"
