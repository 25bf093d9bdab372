"""A signed-in visitor of the console, with everything that the browser complains about."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Response

from tests.api.calls import ADMIN_KEY

CHROMIUM: Final = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
"""The browser of the system; Playwright downloads none."""

DESKTOP: Final = (1280, 800)
PHONE: Final = (360, 740)

Colors = Literal["light", "dark"]

_AXE: Final = Axe()
_OVERFLOW: Final = """() => {
    const room = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= room) return [];
    return [...document.querySelectorAll("body *")]
        .filter((one) => one.getBoundingClientRect().right > room + 0.5)
        .map((one) => one.outerHTML.slice(0, 120));
}"""


class Visitor:
    """One browser context with one page."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.context = context
        self.address = address
        self.page = context.new_page()
        self.page.set_default_timeout(15_000)
        self.complaints: list[str] = []
        """Errors and warnings of the browser's console, among them those of the content security policy; exceptions of
        scripts, failed requests, and dialogs, of which the console opens none."""
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self.complaints.append(f"exception: {error}"))
        self.page.on("dialog", self._note_dialog)
        self.page.on("response", self._note_response)

    def sign_in(self, key: str = ADMIN_KEY) -> None:
        """Get a session without the form."""
        answer = self.context.request.post(
            f"{self.address}/console/sign-in", form={"key": key}, headers={"Origin": self.address}, max_redirects=0
        )
        assert answer.status == 303, answer.text()

    def open(self, path: str) -> Response:
        """Load a page, and return the answer."""
        answer = self.page.goto(self.address + path)
        assert answer is not None
        return answer

    def submit(self, name: str) -> None:
        """Press the button of this name, and wait for the page that follows."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=name, exact=True).click()

    def links(self) -> list[str]:
        """Return the paths of the console that the page leads to, without fragments."""
        found: list[str] = self.page.eval_on_selector_all(
            "a[href^='/console']:not([download])",
            "links => links.map((link) => link.getAttribute('href').split('#')[0])",
        )
        return list(dict.fromkeys(found))

    def show(self, *, colors: Colors = "light", size: tuple[int, int] = DESKTOP) -> None:
        """Show the same page in other colors or at another size."""
        self.page.emulate_media(color_scheme=colors)
        self.page.set_viewport_size({"width": size[0], "height": size[1]})

    def violations(self, *rules: str) -> list[str]:
        """Return what axe-core finds wrong with the page as it is shown now, by all rules or by these."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(_AXE.axe_script)
        options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
        if rules:
            options["runOnly"] = list(rules)
        found: list[dict[str, Any]] = self.page.evaluate("(options) => axe.run(options)", options)["violations"]
        return [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"]]

    def overflow(self) -> list[str]:
        """Return the elements that make the page scroll sideways."""
        found: list[str] = self.page.evaluate(_OVERFLOW)
        return found

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def _note_response(self, response: Response) -> None:
        if response.status >= 400 and not response.request.is_navigation_request():
            self.complaints.append(f"{response.status}: {response.url}")

    def _note_dialog(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def visiting(browser: Browser, address: str, **options: Any) -> Iterator[Visitor]:
    """Give a visitor without a session; `options` are those of a browser context."""
    width, height = DESKTOP
    with browser.new_context(viewport={"width": width, "height": height}, **options) as context:
        yield Visitor(context, address)
