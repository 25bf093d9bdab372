"""The files that pages load: the style sheet, the scripts, the icon and the vendored libraries.

Each has its content hash in its address, so browsers keep it for a year and load a new one with a new version. All are
served by the gateway: a page into which people type a key must not load a script of another server.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

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
