"""Random JSON bodies for differential fuzzing: messages from a pool, framed in many ways, half of them damaged.

Values and objects are JSON text, so that keys can be duplicated, escaped or badly written. A pool keeps most messages
from one body to the next: making one takes longer than reading it.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final, TypeVar

Item = TypeVar("Item")
Pairs = list[tuple[str, str]]
"""Keys and values of an object in the order in which they are written; both are JSON text without a check."""

POOL: Final = 64
"""Messages kept per table."""
SEVERAL_TABLES: Final = 0.2
"""Share of bodies whose messages are for any tables."""
FRESH: Final = 0.4
"""New messages per body."""
DAMAGED: Final = 0.45
"""Share of bodies whose bytes are damaged."""

TOKENS: Final = (
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"null", b'""', b'"null"', b"true", b"0", b"-0", b"1e400", b" "),
    *(
        b"\n",
        b"\x00",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\\u0000",
        b"\\ud800",
        b"\\u0022",
        b"\\\\",
        b'\\"',
        b"\xef\xbb\xbf",
    ),
    *(
        b'"a":1,',
        b',"a":"1"',
        b'"id":"1",',
        b"{}",
        b"[]",
        b"//",
        b"NaN",
        b'"opType":"D",',
        b"\\u00",
        b"1.0",
        b"\xe2\x80\xa8",
    ),
)
VALUES: Final = (
    *(
        b'"null"',
        b'"0"',
        b'"1"',
        b'"2"',
        b'"3"',
        b'""',
        b'"id"',
        b'"name"',
        b'"\\u006eull"',
        b'"U"',
        b'"D"',
        b'"I"',
        b'"R"',
    ),
    *(
        b"1",
        b"0",
        b"-0",
        b"null",
        b"true",
        b"{}",
        b"[]",
        b'{"a":"1"}',
        b"1.0",
        b'"\\u0000"',
        b'"x\\"y"',
        b'"1","id":"1"',
    ),
)
BLANKS: Final = (" ", "\n", "\t", "  ", "\r\n")


class Dice:
    """Cheap random choices: `Random.random` alone is fast."""

    def __init__(self, seed: str) -> None:
        self.random: Callable[[], float] = Random(seed).random

    def chance(self, share: float) -> bool:
        return self.random() < share

    def below(self, count: int) -> int:
        return int(self.random() * count)

    def of(self, items: Sequence[Item]) -> Item:
        return items[int(self.random() * len(items))]

    def order(self, items: list[Item]) -> list[Item]:
        return [item for _, item in sorted((self.random(), at, item)[::2] for at, item in enumerate(items))]


def written(pairs: Pairs, dice: Dice) -> str:
    """Return an object; rarely with blanks, another order, a key twice, or an escaped key."""
    if dice.chance(0.012):
        pairs = _unusual(list(pairs), dice)
    if dice.chance(0.05):
        blank, other = dice.of(BLANKS), dice.of(BLANKS)
        return "{" + f"{other},{blank}".join(f'"{key}"{blank}:{other}{value}' for key, value in pairs) + blank + "}"
    return "{" + ",".join([f'"{key}":{value}' for key, value in pairs]) + "}"


def _unusual(pairs: Pairs, dice: Dice) -> Pairs:
    if not pairs:
        return pairs
    at, kind = dice.below(len(pairs)), dice.below(6)
    key, value = pairs[at]
    if kind == 0:
        return [*pairs, pairs[at]]
    if kind == 1:
        return [*pairs, (key, dice.of(("null", '"null"', '"1"', "1", "{}")))]
    if kind == 2:
        pairs[at] = (f"\\u{ord(key[0]):04x}{key[1:]}" if key else key, value)
    elif kind == 3:
        del pairs[at]
    elif kind == 4:
        pairs.insert(at, (dice.of(("unknown", "", "é", "ID", "id", "\\u0000")), dice.of(('"1"', "null", "{}", "[1]"))))
    else:
        dice_order = [(dice.random(), number) for number in range(len(pairs))]
        return [pairs[number] for _, number in sorted(dice_order)]
    return pairs


def random_bodies(seed: str, tables: Sequence[str], message: Callable[[str, Dice], str]) -> Iterator[bytes]:
    """Yield bodies of one to four messages without end; the seed decides all of them.

    `message` makes one message for a table. Most bodies are for one table.
    """
    dice = Dice(seed)

    def made(table: str) -> bytes:
        return message(table, dice).encode("utf-8", "surrogatepass")

    pools = [[made(table) for _ in range(POOL)] for table in tables]
    while True:
        at = dice.below(len(tables))
        pool = pools[at]
        if dice.chance(FRESH):
            pool[dice.below(POOL)] = made(tables[at])
        count = 1 + int(4 * dice.random() ** 2)
        if dice.chance(SEVERAL_TABLES):
            messages = [dice.of(dice.of(pools)) for _ in range(count)]
        else:
            messages = [dice.of(pool) for _ in range(count)]
        body = _framed(messages, dice)
        yield _damaged(body, dice) if dice.chance(DAMAGED) else body


def _framed(messages: list[bytes], dice: Dice) -> bytes:
    kind = dice.below(40)
    if kind < 28:
        return b"[" + b",".join(messages) + b"]"
    if kind < 32:
        return b"\n".join(messages)
    if kind < 34:
        return b"".join(messages)
    if kind < 36:
        return b"\n".join(messages) + b"\n"
    if kind < 38:
        return dice.of((b" ", b"\n", b"\xef\xbb\xbf")) + b"[ " + b" ,\n".join(messages) + b" ]" + dice.of((b"", b" \n"))
    if kind < 39:
        return b"\r\n\r\n".join(messages)
    return b"[" + b",".join(messages) + dice.of((b",]", b"]]", b"", b"][]", b"]null"))


def _damaged(body: bytes, dice: Dice) -> bytes:
    """Return the body with one change, rarely two."""
    kind, at = dice.below(16), dice.below(len(body) + 1)
    if kind == 0:
        body = body[:at]
    elif kind == 1:
        body = body[:at] + bytes((dice.below(256),)) + body[at + 1 :]
    elif kind == 2:
        body = body[:at] + dice.of(TOKENS) + body[at:]
    elif kind == 3:
        body = body[:at] + dice.of(TOKENS) + body[at + 1 + dice.below(4) :]
    elif kind == 4:
        body = body[:at] + body[at + 1 + dice.below(16) :]
    elif kind == 5:
        end = at + dice.below(40)
        body = body[:end] + body[at:]
    else:
        body = _replaced_text(body, at, dice)
    return _damaged(body, dice) if body and dice.chance(0.1) else body


def _replaced_text(body: bytes, at: int, dice: Dice) -> bytes:
    """Return the body with a key or text after `at` replaced, so that most bodies remain valid JSON."""
    start, end = _text(body, at)
    if end < 0:
        return body
    if dice.chance(0.5):
        other = _text(body, dice.below(len(body)))
        return body[:start] + (body[slice(*other)] if other[1] >= 0 else b"null") + body[end:]
    return body[:start] + dice.of(VALUES) + body[end:]


def _text(body: bytes, at: int) -> tuple[int, int]:
    """Return where about the next key or text begins and ends; -1 if there is none."""
    start = body.find(b'"', at)
    end = body.find(b'"', start + 1) + 1
    return (start, end) if start >= 0 and end else (-1, -1)
