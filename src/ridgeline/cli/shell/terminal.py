"""The shell at a terminal: history, completion, and the sentence of the application at the foot."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import printable
from ridgeline.cli.remote.client import Client
from ridgeline.cli.remote.plan_session import COMMANDS, PROMPT
from ridgeline.cli.shell.completer import ShellCompleter
from ridgeline.cli.shell.session import Session, home
from ridgeline.service import registry

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

_EVERY_SECONDS = 2.0


class Terminal:
    """Reads lines from a terminal."""

    def __init__(self, **settings: Any) -> None:
        """`settings` of prompt_toolkit's session, such as its input and output."""
        self._settings = settings
        self._prompt: PromptSession[str] | None = None
        self._completer: ShellCompleter | None = None
        self._foot = Foot()

    def begin(self, session: Session) -> None:
        """Read for this session from now on."""
        from prompt_toolkit import PromptSession
        from prompt_toolkit.auto_suggest import AutoSuggestFromHistory

        self._session, session.read = session, self.read
        self._completer = ShellCompleter(session)
        self._prompt = PromptSession(
            history=_history(home() / "shell_history"),
            completer=self._completer,
            complete_in_thread=True,
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            bottom_toolbar=lambda: self._foot.text or None,
            refresh_interval=_EVERY_SECONDS / 2,
            **self._settings,
        )

    def read(self, prompt: str) -> str | None:
        """The next line; None for Ctrl-D. Ctrl-C drops the line."""
        assert self._prompt is not None and self._completer is not None  # noqa: PT018, S101  begun
        self._completer.only = COMMANDS if prompt == PROMPT else None
        self._foot.watch(self._session.app)
        while True:
            try:
                return self._prompt.prompt(prompt)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None

    def close(self) -> None:
        """End the thread of the foot."""
        self._foot.close()


class Foot:
    """The sentence of an application, asked for every two seconds in a thread, while one is watched."""

    def __init__(self) -> None:
        self.text = ""
        self._app: str | None = None
        self._asked = threading.Event()
        self._over = False
        self._thread: threading.Thread | None = None

    def watch(self, app: str | None) -> None:
        """Ask this application from now on."""
        if app == self._app:
            return
        self._app, self.text = app, ""
        if app is not None and self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ridgeline-shell", daemon=True)
            self._thread.start()
        self._asked.set()

    def close(self) -> None:
        """End the thread; one that waits for an answer is not waited for."""
        self._over = True
        self._asked.set()

    def _work(self) -> None:
        while not self._over:
            app = self._app
            text = "" if app is None else _sentence(app)
            if app == self._app:
                self.text = text
            self._asked.wait(_EVERY_SECONDS if app is not None else None)
            self._asked.clear()


def _sentence(app: str) -> str:
    try:
        entry = registry.find(app)
        token = entry.token or os.environ.get("RIDGELINE_TOKEN")
        return printable(Client(entry.url, token, timeout=1.0).get("/sentence")["text"])
    except (RidgelineError, KeyError, TypeError) as error:
        return "" if not isinstance(error, RidgelineError) else printable(str(error))


def _history(path: Path) -> Any:
    """A history in a file that only its owner reads; in memory where it cannot be written."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
