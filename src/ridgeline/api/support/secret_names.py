"""Names of secrets: `sasl.jaas.config`, `accessKey`, `X-Api-Key`, `pwd`.

Not `partition_key`, `compass`, `max_tokens`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_GLUED = re.compile(
    # found anywhere in a name, without regard to word boundaries
    r"passw(?:or)?d|passphrase|passcode|secret(?!ar)|credential|token(?!i[sz])|authorization"
    r"|apikey|accesskey|accountkey|privatekey"
    r"|(?:secret|signing|master|shared|storage|session|subscription|license)key$"
    r"|(?:encrypt(?:ion)?|decryption|keystore|truststore|cipher)key$"
    r"|(?:user|db|smtp|ftp|my|root|admin|key|store|ssl|imap|ldap|proxy|sql|pg|redis|mongo|mail|login)pass$"
    r"|pwd$|pswd|cookie|jaas|(?:jsession|phpsess|session)id$"
)
_WORDS = frozenset({"passwd", "pwd", "secret", "jwt", "sig", "signature", "bearer", "otp", "hmac", "sas"})
_LAST_WORDS = frozenset({"pass", "auth", "session", "sessionid", "sid"})
_KEYS = _set("""
    access account admin aes api cipher crypto decrypt decryption encrypt encryption fernet hmac host keystore
    license master pem private root rsa sas secret server service session shared sign signing ssh ssl storage
    subscription tls truststore wrapping
""")
"""Words before `key` that make the key a secret."""
_HARMLESS_ENDS = _set("""
    algorithm bytes class column columns count dir enabled endpoint expiration expiry field fields file folder
    format header index interval kind length limit location max mechanism method min minutes mode ms name
    names path policy prefix provider refresh regex renewal required rotation scope seconds size store timeout
    ttl type uri url version
""")
"""Last words of names that describe a secret and do not hold it."""
_COUNTS = frozenset({"max", "min", "num", "number", "count", "total"})


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """True if a value of this name is a secret.

    Words may be joined by `_`, `-`, `.`, spaces, capital letters, or nothing.

    >>> [
    ...     is_secret(name)
    ...     for name in (
    ...         "fs.s3a.access.key",
    ...         "accessKey",
    ...         "dbpassword",
    ...         "partition_key",
    ...         "password_file",
    ...         "key",
    ...     )
    ... ]
    [True, True, True, False, False, False]
    """
    words = [word.lower() for word in _WORD.findall(name[:1000])]
    if (
        not words
        or (len(words) > 1 and words[-1] in _HARMLESS_ENDS)
        or (words[-1] == "tokens" and _COUNTS.intersection(words))
    ):
        return False
    pairs = set(pairwise(words))
    return (
        _GLUED.search("".join(words)) is not None
        or not _WORDS.isdisjoint(words)
        or words[-1] in _LAST_WORDS
        or ("session", "id") in pairs
        or ("pass", "phrase") in pairs
        or any(before in _KEYS and after in {"key", "keys"} for before, after in pairs)
    )
