"""The rules of a tokens file: a line for each token, user or group, and its role.

# subject              role     secret             which applications, and until when
ann                    operate  sha256:4f5e...     application=quotes* expires=2027-03-01T00:00:00Z
user:bob               admin
group:oncall           operate  application=pay-*
"group:Data Ops"       read
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from ridgeline.service.access.roles import Identity, Role

KINDS = ("user", "group")
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line. `digest`: the SHA-256 of a token; empty: it is known otherwise.

    `expires`: seconds since 1970; None: never. `applications`: patterns of names; empty: all.
    """

    subject: str
    role: Role
    digest: bytes = b""
    applications: tuple[str, ...] = ()
    expires: float | None = None

    def is_for(self, application: str) -> bool:
        """Whether it counts for an application."""
        return not self.applications or any(fnmatchcase(application, one) for one in self.applications)

    def line(self) -> str:
        """It as the file has it."""
        subject = f'"{self.subject}"' if any(map(str.isspace, self.subject)) else self.subject
        words = [subject, self.role.word]
        words += [f"sha256:{self.digest.hex()}"] if self.digest else []
        words += [f"application={one}" for one in self.applications]
        words += [] if self.expires is None else [f"expires={time_text(self.expires)}"]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of a file, found by what a request proves."""

    rules: tuple[Rule, ...] = ()
    _tokens: Mapping[bytes, Rule] = field(default_factory=dict)
    _others: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> Rules:
        """Rules with their indexes, so that ten thousand cost as much as one."""
        all_of_them = tuple(rules)
        others: dict[str, list[Rule]] = {}
        for rule in all_of_them:
            if not rule.digest:
                others.setdefault(rule.subject, []).append(rule)
        tokens = {rule.digest: rule for rule in all_of_them if rule.digest}
        return cls(all_of_them, tokens, {subject: tuple(found) for subject, found in others.items()})

    def token(self, token: bytes) -> Identity | None:
        """The identity that a token proves; it may have expired, or be for another application.

        It is found by its digest: how long that takes says nothing about a token.
        """
        digest = hashlib.sha256(token).digest()
        rule = self._tokens.get(digest)
        return None if rule is None else Identity(rule.subject, "token", digest.hex())

    def role(self, identity: Identity, application: str, now: float) -> Role | None:
        """The greatest role that an identity has at a moment (seconds since 1970); None: none."""
        roles = [
            rule.role
            for rule in self._of(identity)
            if rule.is_for(application) and (rule.expires is None or now < rule.expires)
        ]
        return max(roles, default=None)

    def _of(self, identity: Identity) -> Iterator[Rule]:
        """The lines that an identity has, for all applications and times."""
        match identity.source:
            case "token":
                rule = self._tokens.get(bytes.fromhex(identity.key))
                yield from () if rule is None else (rule,)
            case "proxy":
                yield from self._others.get(f"user:{identity.key}", ())
                for group in identity.groups:
                    yield from self._others.get(f"group:{group}", ())


def read_rules(text: str) -> Rules:
    """The rules of a file's text. Raises ValueError naming the first line that is wrong."""
    if not text.strip():
        raise ValueError("it is empty; without tokens it has a comment at least")
    rules: list[Rule] = []
    names: dict[str, int] = {}
    digests: dict[bytes, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        try:
            rule = _rule(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if rule is None:
            continue
        if rule.digest:
            before = names.setdefault(rule.subject, number), digests.setdefault(rule.digest, number)
            if before != (number, number):
                raise ValueError(
                    f"line {number}: `{rule.subject}` has the name or the secret of line {min(before)}"
                )
        rules.append(rule)
    return Rules.of(rules)


def _rule(line: str) -> Rule | None:
    """The rule of a line; None for an empty one or a comment. Raises ValueError."""
    line = line.strip()
    if not line or line.startswith("#"):
        return None
    subject, words = _subject(line)
    if not words:
        raise ValueError(f"`{subject[:100]}` has no role; write `NAME ROLE sha256:...`")
    role, digest, applications, expires = Role.of(words[0]), b"", [], None
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if found := _HASH.fullmatch(word):
            digest = bytes.fromhex(found[1])
        elif name == "application" and value:
            applications.append(value)
        elif name == "expires" and equals:
            expires = read_time(value)
        else:  # it may be a token that someone wrote in the clear, so it is not shown
            raise ValueError(
                "a word after the role is no `sha256:` with 64 digits, `application=` or `expires=`"
            )
    _check_subject(subject, has_secret=bool(digest))
    return Rule(subject, role, digest, tuple(applications), expires)


def _subject(line: str) -> tuple[str, list[str]]:
    if not line.startswith('"'):
        words = line.split()
        return words[0], words[1:]
    subject, quote, rest = line[1:].partition('"')
    if not quote:
        raise ValueError("a quotation mark is not closed")
    return subject, rest.split()


def _check_subject(subject: str, *, has_secret: bool) -> None:
    """Raise ValueError for what can be no subject."""
    kind, colon, what = subject.partition(":")
    if not colon:
        if not NAME.fullmatch(subject):
            raise ValueError(f"`{subject[:100]}` is no name of a token; use letters, digits and `._@-`")
        if not has_secret:
            raise ValueError(f"the token `{subject}` has no `sha256:`; `ridgeline token add` makes one")
        return
    if kind not in KINDS:
        raise ValueError(f"`{kind[:100]}:` is none of {', '.join(f'`{one}:`' for one in KINDS)}")
    if has_secret or not what:
        raise ValueError(f"`{subject[:100]}` must be `{kind}:NAME`, a role, and no `sha256:`")


def read_time(text: str) -> float:
    """Seconds since 1970 of a date or time with its zone. Raises ValueError.

    >>> read_time("2027-01-01"), read_time("2027-01-01T01:00:00+01:00")
    (1798761600.0, 1798761600.0)
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"`{text[:100]}` is no time; write `2027-01-01` or `2027-01-01T12:00:00Z`") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def time_text(seconds: float) -> str:
    """A time as the file has it, in UTC and whole seconds.

    >>> time_text(1798761600.0)
    '2027-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
