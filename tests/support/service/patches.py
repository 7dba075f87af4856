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
