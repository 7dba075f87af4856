"""The socket of a service manager, as a test reads it."""


def messages(end, until):
    """The messages up to the first one with such a line."""
    found = []
    while not any(until in one for one in found[-1:]):
        found.append(end.recv(4096).decode().splitlines())
    return found
