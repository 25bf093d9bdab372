"""The API documentation pages load everything from this server, under a policy that allows nothing else."""

import hashlib
import re
from pathlib import Path

import pytest

from app.api.application import create_app
from app.api.openapi.document import MEDIA_TYPES, STATIC, encoded_contract
from app.settings import Settings
from tests.api.calls import Gateway, problem


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_address_of_the_gateway_leads_to_the_docs(anonymous: Gateway, method: str) -> None:
    answer = anonymous.request(method, "/")
    assert answer.status_code == 307
    assert anonymous.get("/").headers["location"] == "console"


@pytest.mark.parametrize("page", ["/docs", "/redoc"])
def test_a_page_loads_nothing_from_elsewhere_and_runs_no_script_within_it(anonymous: Gateway, page: str) -> None:
    answer = anonymous.get(page)
    assert answer.headers["content-type"].startswith("text/html")
    assert "://" not in answer.text
    assert re.findall(r"<script[^>]*>([^<]+)", answer.text) == []
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert not [source for source in policy.values() if "http" in source or "*" in source]
    loaded = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
    assert len(loaded) >= 3
    for path in loaded:
        assert (
            anonymous.get(f"/{path}").raise_for_status().headers["content-type"].split(";")[0] in MEDIA_TYPES.values()
        )


def test_every_file_is_served_and_no_other(anonymous: Gateway) -> None:
    for name, media_type in MEDIA_TYPES.items():
        answer = anonymous.get(f"/docs/assets/{name}").raise_for_status()
        assert len(answer.content) == pytest.approx((STATIC / name).stat().st_size, abs=20)
        assert b"cdn.redoc.ly" not in answer.content
        assert answer.headers["content-type"].startswith(media_type)
    for name in ("README.md", "..%2fauth.py", "none.js"):
        problem(anonymous.get(f"/docs/assets/{name}"), 404, "not_found")
    assert anonymous.get("/favicon.ico").headers["content-type"] == "image/svg+xml"


def test_vendored_files_are_those_of_their_packages() -> None:
    rows = re.findall(r"\| `([\w.-]+\.(?:js|css))` \| `([0-9a-f]{64})` \|", (STATIC / "README.md").read_text())
    assert len(rows) == 3
    for name, digest in rows:
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest
    ours = {"docs.css", "favicon.svg", "redoc-start.js", "swagger-start.js", "README.md"}
    licenses = {path.name for path in STATIC.iterdir() if path.suffix == ".txt"}
    assert {path.name for path in STATIC.iterdir()} == ours | licenses | {name for name, _ in rows}
    assert Path(STATIC / "swagger-ui.LICENSE.txt").exists()
    assert Path(STATIC / "redoc.LICENSE.txt").exists()


def test_no_answer_is_taken_for_another_type_and_secrets_are_not_kept(gateway: Gateway) -> None:
    created = gateway.post("/v1/keys", json={"rights": ["read"]})
    rotated = gateway.post(f"/v1/keys/{created.json()['id']}/rotate", json={})
    for answer in (created, rotated):
        assert answer.headers["cache-control"] == "no-store"
    for answer in (created, gateway.get("/v1/tables"), gateway.get("/v1/nothing"), gateway.get("/docs")):
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_all_unread_answers_with_the_contract_share_one_copy() -> None:
    app = create_app(Settings())
    assert encoded_contract(app) is encoded_contract(app)
