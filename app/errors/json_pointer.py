"""JSON Pointers (RFC 6901): errors use them to name a value inside a message."""


def pointer_to(pointer: str, member: str) -> str:
    """Return the pointer to the key `member` of the object at `pointer`."""
    return f"{pointer}/{member.replace('~', '~0').replace('/', '~1')}"
