"""The frame of every page of the console: its sections, who is signed in, the theme, and the token for forms."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from typing import Final, Literal

from app.domain.access.rights import Credential, Right


@cache
def installed_version() -> str:
    """Return the version of the installed package, which takes longer to read than a page to fill."""
    return version("mirrorgate")


class Theme(StrEnum):
    """The colors of the console; `auto` follows the browser."""

    AUTO = "auto"
    LIGHT = "light"
    DARK = "dark"

    @classmethod
    def parse(cls, text: str | None) -> "Theme":
        """Return the theme of this name, `auto` for any other string."""
        return cls(text) if text in {"light", "dark"} else cls.AUTO


@dataclass(frozen=True, slots=True)
class Notice:
    """A message at the top of a page: what an action did, or why it was rejected and what to do.

    `kind` decides its color, and that a screen reader speaks a bad one at once.
    """

    kind: Literal["good", "bad", "warn", "calm"]
    title: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the navigation, and the right without which it is not shown."""

    name: str
    label: str
    path: str
    right: Right
    every_table: bool = False

    def is_open_to(self, credential: Credential) -> bool:
        """Return True if a caller may see the section."""
        principal = credential.acting_by(self.right)
        return principal is not None and (principal.oversees_every_table or not self.every_table)


SECTIONS: Final = (
    Section("overview", "Overview", "/console", Right.READ),
    Section("tables", "Tables", "/console/tables", Right.READ),
    Section("dead_letters", "Dead letters", "/console/dead-letters", Right.READ),
    Section("producers", "Producers", "/console/producers", Right.INGEST),
    Section("try", "Test a message", "/console/try", Right.INGEST),
    Section("doctor", "Doctor", "/console/doctor", Right.ADMIN, every_table=True),
    Section("keys", "Keys", "/console/keys", Right.ADMIN, every_table=True),
    Section("audit", "Audit", "/console/audit", Right.ADMIN, every_table=True),
)
"""The sections in the order of the navigation."""


@dataclass(frozen=True, slots=True)
class Chrome:
    """The values of `base.html`. Without a user the page shows no navigation."""

    version: str
    theme: Theme = Theme.AUTO
    user: str | None = None
    """User who is signed in: the id of a key, or `oidc:` and a subject."""
    rights: str = ""
    """The rights of the user in words, for the menu."""
    csrf: str = ""
    """The token that each form of the session carries."""
    sections: tuple[Section, ...] = ()
    current: str = ""
    """The name of the section of this page."""
    alerts: int | None = None
    """Number of things that need attention; None if the page has not looked."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The names of keys that the page shows, and of the user's key, by id."""
    address: str = ""
    """The address that shows this page again; empty for the answer to a form."""

    @property
    def here(self) -> str:
        """Return where the menu's forms lead back to: this page, or the start of its section."""
        return self.address or next((section.path for section in self.sections if section.name == self.current), "")


def chrome_of(
    credential: Credential, *, version: str, theme: Theme, csrf: str, address: str, names: Mapping[str, str]
) -> Chrome:
    """Return the surroundings of a page for the holder of a credential; `names` has that of the own key."""
    rights = sorted({right for grant in credential.grants for right in grant.rights})
    patterns = dict.fromkeys(pattern for grant in credential.grants for pattern in grant.table_patterns)
    return Chrome(
        version=version,
        theme=theme,
        user=credential.subject,
        rights=f"{', '.join(rights)} on {', '.join(patterns)}" if rights else "no rights",
        csrf=csrf,
        sections=tuple(section for section in SECTIONS if section.is_open_to(credential)),
        names=names,
        address=address,
    )
