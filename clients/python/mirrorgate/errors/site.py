"""Addresses of the documentation's site, for strings of readers who have the programs but not the repository.

The sources name a page by its path in the repository, `docs/<page>.md#<heading>`, which a test follows; what is
printed has its address.
"""

import re
from typing import Final

SITE: Final = "https://mirrorgate.github.io/mirrorgate/"

_PAGE: Final = re.compile(r"\bdocs/([a-z/-]+)\.md(#[\w-]+)?")


def page_of_code(code: str) -> str:
    """Return the address of an error code's page, the `type` of its problem document."""
    return f"{SITE}errors/{code}/"


def with_addresses(text: str) -> str:
    """Return a string with each page of `docs/` that it names as an address of the site."""
    return _PAGE.sub(lambda page: f"{SITE}{page[1]}/{page[2] or ''}", text)
