"""One Chromium for the package, and a visitor for each test."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.api.calls import Gateway
from tests.api.console.browser.visitor import CHROMIUM, Visitor, visiting
from tests.support.fabric.fixtures import clock, fabric, open_client
from tests.support.onelake.fixtures import trust

__all__ = ["clock", "fabric", "open_client", "trust"]


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Run Chromium without a window. It ends with the package: Playwright runs an event loop here."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install --no-install-recommends chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture
def stranger(chromium: Browser, gateway: Gateway) -> Iterator[Visitor]:
    """Give a visitor without a session, in front of an empty gateway."""
    with visiting(chromium, gateway.address) as visitor:
        yield visitor


@pytest.fixture
def visitor(stranger: Visitor) -> Visitor:
    """Give a signed-in administrator, in front of an empty gateway."""
    stranger.sign_in()
    return stranger
