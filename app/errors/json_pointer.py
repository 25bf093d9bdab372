"""JSON Pointers (RFC 6901), as errors name places in a message."""


def pointer_to(pointer: str, member: str) -> str:
    """The pointer of a member below `pointer`."""
    return f"{pointer}/{member.replace('~', '~0').replace('/', '~1')}"
