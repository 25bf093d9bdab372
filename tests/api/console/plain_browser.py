"""A browser without a script: it keeps cookies, and sends forms with the token of the page that it has loaded."""

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.api.calls import ADMIN_KEY


class Browser(httpx.Client):
    """A browser of the console."""

    def page(self, path: str, **parameters: Any) -> str:
        """Return the text of a page that must be there; its markup is checked."""
        answer = self.get(path, params=parameters or None)
        assert answer.status_code == 200, answer.text
        check_markup(answer.text)
        return answer.text

    def submit(self, path: str, **fields: Any) -> httpx.Response:
        """Post a form, and follow where it leads to; the markup of the page is checked."""
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', self.get("/console/none").text)
        assert found is not None
        answer = self.post(path, data={"csrf": found[1], **fields}, follow_redirects=True)
        check_markup(answer.text)
        return answer


def link_of(page: str, rel: str) -> str:
    """Return where the link to the `next` or `prev` page leads."""
    found = re.search(rf'rel="{rel}" href="([^"]+)"', page)
    assert found is not None
    return html.unescape(found[1])


@contextmanager
def signed_in(address: str, key: str = ADMIN_KEY) -> Iterator[Browser]:
    """Give a browser with a session of this key."""
    with Browser(base_url=address, trust_env=False, timeout=30) as browser:
        answer = browser.post("/console/sign-in", data={"key": key})
        assert answer.status_code == 303, answer.text
        yield browser


def check_markup(page: str) -> None:
    """Check what holds for every page: no inline script or style, one main heading, labeled tables, no missing part.

    A part of a page has no main heading.
    """
    assert page.count("<script") == page.count("<script src=")
    assert not re.search(r"<[^>]+\s(style|on[a-z]+)=", page)
    assert page.count("<h1") == ("<html" in page)
    assert page.count("<table") == page.count("<caption")
    regions = re.findall(r'<div class="scroll"[^>]*>', page)
    assert all('tabindex="0"' in region and "aria-label=" in region for region in regions)
    labels = set(re.findall(r'<label for="([^"]+)"', page))
    for field in re.findall(r"<(?:input|select|textarea)\b[^>]*>", page):
        if 'type="hidden"' in field or field.endswith(" hidden>"):
            continue
        named = re.search(r'\sid="([^"]+)"', field)
        assert "aria-label=" in field or (named and named[1] in labels), field
