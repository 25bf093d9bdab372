"""The position of a change in its source's log, as strings that sort; what makes them of the numbers of databases."""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

SEPARATOR: Final = "\u001f"
"""Between the name of a log or task and a partition: a control character, which no partition has."""

_MAX_LOG_BYTES: Final = 512
_DIGITS: Final = 20
"""Of a number of 64 bits, so that strings sort as the numbers do."""

_NUMBER: Final = re.compile(r"\d{1,20}", re.ASCII)
_HEX_PARTS: Final = re.compile(r"[0-9A-Fa-f]{1,16}(?:[:/][0-9A-Fa-f]{1,16}){1,2}", re.ASCII)
_FILE: Final = re.compile(r"(.+)\.(\d{1,20})", re.ASCII | re.DOTALL)


_WITHOUT_HEX: Final = dict.fromkeys(map(ord, "0123456789abcdefABCDEF"), "0")


class LogPosition(NamedTuple):
    """The position of a change in its source's log. Positions of different logs are never compared."""

    log: str
    """The name of the log; empty where the source task names it."""
    position: str
    """Sorts as the log does."""
    shared: bool = False
    """True if several changes can have the position."""
    unclear: int = 0
    """Characters of two positions that, if they are equal, leave open which change was first."""

    def is_unclear(self, other: str) -> bool:
        """Return True if the order of this position and another one of the log is unknown."""
        return self.unclear > 0 and self.position[: self.unclear] == other[: self.unclear]


def sortable(value: object) -> str | None:
    """Return a number of a log as a string that sorts: an integer, or hexadecimal parts such as `16/B374D848`.

    None for anything else.
    """
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        return None
    if _NUMBER.fullmatch(text):
        return text.zfill(_DIGITS)
    if _HEX_PARTS.fullmatch(text):
        return "".join(f"{int(part, 16):0{_DIGITS}}" for part in re.split("[:/]", text))
    return None


def comparable(values: Sequence[Any]) -> Sequence[Any] | None:
    """Return values that sort as the strings of `sortable` do; None where only these tell."""
    kinds = {*map(type, values)}
    if kinds == {int}:
        return values if min(values) >= 0 else None
    if kinds != {str}:
        return None
    texts: Sequence[str] = values
    if all(map(str.isdigit, texts)) and all(map(str.isascii, texts)):
        return [*map(int, texts)]
    form = texts[0].translate(_WITHOUT_HEX), len(texts[0])
    alike = all((text.translate(_WITHOUT_HEX), len(text)) == form for text in texts)
    return [*map(str.lower, texts)] if alike and sortable(texts[0]) is not None else None


def sortable_file(name: object) -> tuple[str, str] | None:
    """Return the base name of a log file such as `binlog.000003`, and its number as a string that sorts."""
    found = _FILE.fullmatch(name) if isinstance(name, str) else None
    return None if found is None else (found[1], found[2].zfill(_DIGITS))


def log_position(
    log: tuple[object, ...], *numbers: str | None, shared: bool = True, unclear: int = 0
) -> LogPosition | None:
    """Return the position that these sortable numbers make in a log, None if one is missing.

    The parts of `log` name it. A long name is cut and told apart by its digest.
    """
    if None in numbers:
        return None
    name = " ".join("" if part is None else str(part) for part in log).replace(SEPARATOR, " ").replace("\0", " ")
    written = name.encode(errors="replace")
    if len(written) > _MAX_LOG_BYTES:
        name = f"{written[:64].decode(errors='replace')} {sha256(written).hexdigest()}"
    return LogPosition(name, "".join(filter(None, numbers)), shared, unclear)
