"""Damaged forms of real bytes, always the same for a seed, and a watch for code that they run."""

import contextlib
import random
import sys

NASTY = [
    b"", b"\0", b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"[" * 3000, b'{"a":' * 1500, b"1e999", b"NaN", b"null",
    b"9" * 5000, b"\\ud800", b"../../etc/passwd", b"\r\n", b"\x1b[2J", b"-1", b"true", b'""', b"[]", b"{}",
    b"&a [*a,*a]", b"!!python/object/apply:os.system [id]", b"PK\x05\x06", b"\x80\x05cos\nsystem\n.",
]  # fmt: skip
_CODE = ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen")
_watched = []
_installed = []


def mutated(samples, seed, count):
    """So many damaged forms of the samples."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(samples))
        for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
            at = chance.randrange(len(data) + 1)
            end = min(len(data), at + chance.choice((0, 1, 1, 4, 8, 64)))
            kind = chance.randrange(6)
            if kind == 0 and at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            elif kind == 1:
                data[at:end] = chance.choice(NASTY)
            elif kind == 2:
                del data[at:end]
            elif kind == 3:
                data[at:at] = data[at:end] * chance.choice((1, 2, 50))
            elif kind == 4:
                other = chance.choice(samples)
                data[at:end] = other[chance.randrange(len(other) + 1) :][:64]
            else:
                del data[at:]
        yield bytes(data)


def _hook(event, args):
    if _watched and event in _CODE:
        _watched[-1].append((event, repr(args)[:200]))


@contextlib.contextmanager
def no_code_is_run():
    """Fails if anything is unpickled by name, or a program is started. Hooks stay as long as the process."""
    if not _installed:
        sys.addaudithook(_hook)
        _installed.append(True)
    _watched.append([])
    try:
        yield
    finally:
        found = _watched.pop()
    assert found == []
