"""JSON merge patches as who reads a stream applies them."""


def patched(target, patch):
    """RFC 7396, word for word."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for name, part in patch.items():
        if part is None:
            target.pop(name, None)
        else:
            target[name] = patched(target.get(name), part)
    return target


def without_nulls(value):
    """Without members that are null, which are the same as missing: no patch can make one."""
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return value
