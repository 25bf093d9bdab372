"""Templates of the console, the frame around each page, addresses of pages, and the files that pages load.

Each file has its content hash in its address, so browsers keep it for a year and load a new one with a new version.
The gateway serves all of them: a page into which people type a key must not load a script of another server. Invariant:
autoescaping is on for every template, and an unknown name in a template is an error, never an empty string.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app.domain.access.rights import Credential, Right, rates
from app.staging.connection.page_turn import Page
from mirrorgate import text
from mirrorgate.errors import Code
from mirrorgate.errors.site import SITE

FRAGMENTS: Final = "/console/fragments"
"""Paths of the parts of pages that refresh themselves."""


class Links(NamedTuple):
    """The addresses of the pages with newer and older entries; None where there are none."""

    newer: str | None
    older: str | None


def table_path(table: str) -> str:
    """Return the address of a table's page."""
    return f"/console/tables/{quote(table, safe='')}"


def key_path(key_id: str) -> str:
    """Return the address of a key's page."""
    return f"/console/keys/{quote(key_id, safe='')}"


def link(path: str, **parameters: object) -> str:
    """Return an address with those parameters that are neither None nor empty."""
    query = urlencode({name: value for name, value in parameters.items() if value not in (None, "")})
    return f"{path}?{query}" if query else path


def links_of(page: Page[Any], path: str, filters: Mapping[str, object]) -> Links:
    """Return the links of a page of entries that are ordered by id."""
    return Links(
        None if page.newer_after is None else link(path, **filters, after=page.newer_after),
        None if page.older_before is None else link(path, **filters, before=page.older_before),
    )


STATIC: Final = Path(__file__).parent / "static"
PREFIX: Final = "/console/assets/"

MEDIA_TYPES: Final[Mapping[str, str]] = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "plots.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "vendor/htmx.min.js": "text/javascript",
    "vendor/uPlot.iife.min.js": "text/javascript",
    "vendor/uPlot.min.css": "text/css",
}
"""The media types of the files that are served, by their path below `static`."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file with its media type and the beginning of its SHA-256."""

    content: bytes
    media_type: str
    digest: str


@cache
def asset(name: str) -> Asset:
    """Return the file of this name. Raises KeyError for any other name."""
    media_type = MEDIA_TYPES[name]
    content = (STATIC / name).read_bytes()
    return Asset(content, media_type, hashlib.sha256(content).hexdigest()[:16])


def address(name: str) -> str:
    """Return the path of a file with its content hash, for templates."""
    return f"{PREFIX}{name}?v={asset(name).digest}"


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
    status: int = 200
    """The HTTP status of the page."""


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


TEMPLATES: Final = Path(__file__).parent / "templates"


def render(name: str, chrome: Chrome, **values: object) -> bytes:
    """Return the page or fragment of a template, filled with values by name; ages in it are relative to now."""
    return environment().get_template(name).render(values, chrome=chrome, now=datetime.now(UTC)).encode()


_ADDRESS: Final = re.compile(rf"{SITE}([a-z/-]+(?:#[\w-]+)?)")


def prose(words: str) -> Markup:
    """Return a string as HTML, with the parts between backticks as code and pages of the documentation as links.

    Every part is escaped.
    """
    parts = words.split("`")
    if len(parts) % 2 == 0:
        return _linked(words)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if index % 2 else _linked(part) for index, part in enumerate(parts))


def remedy_of(code: str) -> str:
    """Return what to do about a code; nothing for one of an earlier program."""
    return Code(code).remedy if code in Code._value2member_map_ else ""


def _linked(words: str) -> Markup:
    link = Markup('<a href="{}{}" rel="noreferrer">{}</a>')
    parts = enumerate(_ADDRESS.split(words))
    return Markup("").join(link.format(SITE, part, part) if index % 2 else part for index, part in parts)


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters: dict[str, Any] = {
        "count": text.count,
        "short": text.short_count,
        "size": text.size,
        "duration": text.duration,
        "exact": text.exact,
        "percent": text.percent,
        "words": text.words,
        "details": text.details,
        "rates": rates,
        "prose": prose,
    }
    made.filters |= filters
    made.globals |= {
        "asset": address,
        "ago": text.ago,
        "remedy_of": remedy_of,
        "table_path": table_path,
        "key_path": key_path,
        "link": link,
    }
    return made
