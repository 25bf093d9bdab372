"""The position of a table: how far its objects are read, as the text that the gateway keeps with the data.

It is JSON of at most 256 ASCII characters. A long key is cut and completed by its hash. Invariant: a mark and a listing
are all that decides what is read next, so any process can continue.
"""

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Self

from app.errors import Code, Misconfigured

MAX_CHARACTERS: Final = 256
_DIGEST: Final = 16
_KEY_HASH: Final = 24


def digest_of(text: str | bytes) -> str:
    """Return the short hash by which contents and ETags are compared."""
    return sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:_DIGEST]


@dataclass(frozen=True, slots=True)
class Mark:
    """The last object of which something is durable. `next_message` is None if all of it is."""

    key: str
    etag: str
    """Hash of the object's ETag."""
    newest: int
    """The latest modification time of the objects read so far, in milliseconds since 1970."""
    next_message: int | None = None
    end: int = 0
    """The byte of the decompressed object after the durable messages."""
    content: str = ""
    """Hash of the decompressed object before `end`: the rest is only read if it is unchanged."""
    key_hash: str | None = None
    """Hash of the whole key if `key` is only its beginning."""

    def encoded(self) -> str:
        """Return the mark as a position."""
        fields: dict[str, Any] = {"o": self.key, "e": self.etag, "t": self.newest}
        if self.next_message is not None:
            fields |= {"n": self.next_message, "b": self.end, "p": self.content}
        text = _compact(fields)
        if len(text) <= MAX_CHARACTERS:
            return text
        fields["h"] = sha256(self.key.encode()).hexdigest()[:_KEY_HASH]
        key = self.key[:MAX_CHARACTERS]
        while len(text) > MAX_CHARACTERS:
            key = key[:-1]
            text = _compact(fields | {"o": key})
        return text

    @classmethod
    def decoded(cls, text: str) -> Self:
        """Read a position. Raises Misconfigured `producer_shared` for one that is no mark."""
        try:
            fields = json.loads(text)
            return cls(
                str(fields["o"]),
                str(fields["e"]),
                int(fields["t"]),
                int(fields["n"]) if "n" in fields else None,
                int(fields.get("b", 0)),
                str(fields.get("p", "")),
                fields.get("h"),
            )
        except (ValueError, KeyError, TypeError) as error:
            detail = (
                "the position that the gateway keeps for this producer was not written by a bridge of object storage"
            )
            remedy = "Another program used the producer's name: give the bridge another `name`."
            raise Misconfigured(Code.PRODUCER_SHARED, detail, remedy=remedy) from error

    def is_of(self, key: str) -> bool:
        """Return whether the mark is at this object."""
        if self.key_hash is None:
            return key == self.key
        return key.startswith(self.key) and sha256(key.encode()).hexdigest()[:_KEY_HASH] == self.key_hash


def _compact(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":"))
