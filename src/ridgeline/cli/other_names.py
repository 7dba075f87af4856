"""Names of commands that are not listed: those of Apex, and of commands that are options of others now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_WORDS = {
    "launch": "run",
    "list-apps": "ps",
    "shutdown-app": "stop",
    "kill-app": "stop --now",
    "kill": "stop --now",
    "get-app-info": "status --info",
    "list-operators": "operators",
    "list-containers": "operators --containers",
    "get-stack": "lines --stack",
    "watermarks": "record-age --watermarks",
    "decisions": "changes --decisions",
    "begin-logical-plan-change": "change",
    "start-recording": "record start",
    "stop-recording": "record stop",
    "list-recordings": "record list",
    "show-recording": "record show",
    "dump-config": "plan --config",
    "list-library": "library",
    "describe-operator": "library --describe",
    "get-package-info": "library --package",
    "list-attributes": "library --attributes",
}
OTHER_NAMES: Mapping[str, Sequence[str]] = {name: words.split() for name, words in _WORDS.items()}
"""The words that each stands for."""
