"""Fills the templates of the console.

Invariant: autoescaping is on for every template, and an unknown name in a template is an error, never an empty string.
"""

import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app.console import links
from app.console.assets import address
from app.console.chrome import Chrome
from app.domain.access.rights import rates
from mirrorgate import text
from mirrorgate.errors import Code
from mirrorgate.errors.site import SITE

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
        "table_path": links.table_path,
        "key_path": links.key_path,
        "link": links.link,
    }
    return made
