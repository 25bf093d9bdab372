"""The page of the doctor: what an API process can check itself, and the landing zone when somebody asks."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.api.calls import Gateway, own_gateway
from tests.api.console.conftest import SignIn
from tests.api.console.plain_browser import Browser, signed_in

PATH = "/console/doctor"


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    folder = tmp_path / "zone <b>x"
    folder.mkdir()
    return folder


@pytest.fixture
def browser(gateway: Gateway, api_database: str, zone: Path) -> Iterator[Browser]:
    """Give a signed-in administrator of a gateway that has a landing zone."""
    with own_gateway(api_database, landing_zone=str(zone)) as own, signed_in(own.address) as made:
        yield made


def test_an_unsafe_setting_comes_first_with_its_remedy_and_the_zone_is_examined_when_asked(
    browser: Browser, zone: Path, api_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORGATE_LANDING_ZNOE", "secret-value")
    page = browser.page(PATH)
    rows = page.partition("<tbody>")[2]
    assert rows.index("postgres fsync") < rows.index("MIRRORGATE_LANDING_ZNOE") < rows.index(">ok</span>")
    assert "MIRRORGATE_LANDING_ZONE" in rows
    assert "What to do:" in rows
    assert "secret-value" not in page
    assert "zone &lt;b&gt;x" in page
    assert "Examine the landing zone" in page
    assert list(zone.iterdir()) == []
    answer = browser.submit(PATH)
    assert answer.status_code == 200
    for check in ("zone rename keeps existing", "zone write", "zone space"):
        assert f'<th scope="row">{check}</th>' in answer.text
    assert "secret-value" not in answer.text


def test_without_a_zone_the_page_says_where_to_ask(sign_in: SignIn) -> None:
    page = sign_in().page(PATH)
    assert "has no <code>MIRRORGATE_LANDING_ZONE</code>" in page
    assert "Examine the landing zone" not in page


def test_the_overview_links_to_it_only_for_who_may_open_it(sign_in: SignIn) -> None:
    for path, links in (("/console", 2), ("/console/fragments/overview", 1)):
        assert sign_in().page(path).count(f'href="{PATH}"') >= links
        page = sign_in("read").page(path)
        assert ("postgres fsync" in page, PATH in page) == (True, False)
