"""Signing in at an identity provider of another site: a real browser has rules for cookies, forms and redirects."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser

from tests.api.calls import own_gateway
from tests.api.console.browser.visitor import visiting
from tests.api.console.test_oidc_sign_in import settings_of
from tests.support.http.issuer import Issuer

pytestmark = pytest.mark.slow


@pytest.fixture
def address(issuer: Issuer, api_database: str) -> Iterator[str]:
    """Give a gateway at `localhost`: for a browser, the issuer at 127.0.0.1 is another site."""
    back = {"oidc_redirect_url": "http://localhost/console/oidc/callback"}
    with own_gateway(api_database, **settings_of(issuer) | back) as gateway:
        issuer.gateway = gateway.address.replace("127.0.0.1", "localhost")
        yield issuer.gateway


def test_a_browser_goes_to_the_provider_and_comes_back_signed_in(
    chromium: Browser, address: str, api_engine: sa.Engine
) -> None:
    with visiting(chromium, address) as visitor:
        visitor.open("/console/audit?subject=oidc")
        visitor.page.get_by_role("button", name="Sign in with your organization").click()
        visitor.page.wait_for_url("**/console/audit?subject=oidc")
        assert visitor.page.locator("h1").inner_text() == "Audit"
        assert "oidc:ann" in visitor.page.locator("table").inner_text()
        cookies = {cookie["name"]: cookie["sameSite"] for cookie in visitor.context.cookies()}
        assert cookies == {"mirrorgate_session": "Strict"}
        assert visitor.complaints == []
