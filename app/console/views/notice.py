"""A message at the top of a page: what an action did, or why it was rejected and what to do."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class NoticeView:
    """A message; `kind` decides its color, and that a screen reader speaks a bad one at once."""

    kind: Literal["good", "bad", "warn", "calm"]
    title: str
    text: str = ""
