"""JSON Pointers (RFC 6901): errors use them to name a value inside a message."""


def pointer_to(pointer: str, member: str) -> str:
    """Return the pointer to the key `member` of the object at `pointer`.

    A `pointer` that ends in `*` is that of keys with a prefix, see `app.formats.replicate.layouts`.
    """
    name = member.replace("~", "~0").replace("/", "~1")
    return f"{pointer[:-1]}{name}" if pointer.endswith("*") else f"{pointer}/{name}"
