"""Applications that are wrong on purpose are read by type checkers, and imported by nobody."""

from __future__ import annotations

collect_ignore_glob = ["applications/*"]
