"""Format numbers, sizes, durations and times for people, in one way on every page and in the output of commands.

Numbers have thin groups of three digits; a duration has its two largest units; a moment is shown relative to now, with
its exact form in the `datetime` of its `<time>` element.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_POWERS: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**4, "k"))
NONE: Final = "–"
_NARROW: Final = "\u00a0"


def count(number: float | None) -> str:
    """Return a whole number with commas, such as `12,345`."""
    return NONE if number is None else f"{round(number):,}"


def amount(number: int, one: str, several: str | None = None) -> str:
    """Return how many there are with their name, such as `1 row` or `12,345 rows`."""
    return f"{count(number)} {one if number == 1 else several or one + 's'}"


def short_count(number: float | None) -> str:
    """Return a number in at most five characters, such as `9,999`, `12.3k` or `4.5M`."""
    if number is None:
        return NONE
    for power, letter in _POWERS:
        if abs(number) >= power:
            value = number / (1_000 if letter == "k" else power)
            return f"{value:.3g}{letter}" if abs(value) < 999.5 else f"{value:,.0f}{letter}"
    return f"{round(number):,}" if number >= 10 or number == round(number) else f"{number:.1f}"


def size(number: float | None) -> str:
    """Return a number of bytes in binary units, such as `1.5 MiB`."""
    if number is None:
        return NONE
    value, unit = float(number), 0
    while abs(value) >= 1024 and unit < len(_SIZES) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} B" if not unit else f"{value:.1f} {_SIZES[unit]}"


def duration(seconds: float | None) -> str:
    """Return a duration with its two largest units, such as `2 h 5 min`; `0 s` for none."""
    if seconds is None:
        return NONE
    left = round(max(seconds, 0.0))
    parts: list[str] = []
    for length, unit in _UNITS:
        amount, left = divmod(left, length)
        if amount or parts:
            parts.append(f"{amount} {unit}" if amount else "")
        if len(parts) == 2:
            break
    return " ".join(filter(None, parts)) or "0 s"


def ago(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was, or when it will be."""
    if moment is None:
        return NONE
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


def exact(moment: datetime) -> str:
    """Return a moment in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def percent(share: float | None) -> str:
    """Return a share as a percentage, such as `42 %`."""
    return NONE if share is None else f"<1{_NARROW}%" if 0 < share < 0.01 else f"{100 * share:.0f}{_NARROW}%"


def words(name: str) -> str:
    """Return a name of programs as words, such as `disk space` for `disk_space`."""
    return name.replace("_", " ")


def details(values: Mapping[str, Any], most: int, *, zeros: bool = True) -> str:
    """Return the details of an event as JSON of at most so many characters, without None and 0 if they say nothing."""
    known = {name: value for name, value in values.items() if zeros or value not in (None, 0)}
    shown = json.dumps(known, ensure_ascii=False) if known else ""
    return shown if len(shown) <= most else shown[:most] + "…"


def digits(limit: float | None) -> str:
    """Return a limit with all its digits, such as `0.5` or `1000000`; nothing if there is none."""
    return "" if limit is None else repr(float(limit)).removesuffix(".0")
