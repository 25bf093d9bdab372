"""Rights that token claims grant."""

from typing import Any

import pytest

from app.domain.access.rights import Credential, Grant, Principal, Right
from app.domain.access.sign_in import credential_of, subject_of
from app.domain.model.names import SourceName, TableName
from app.errors import Code
from tests.support.rejections import rejected

SENDER = Grant(frozenset({Right.INGEST}), ("*",))
OWNER = Grant(frozenset({Right.INGEST, Right.REGISTER}), ("sales.*",))
GRANTED_BY = {"sender": SENDER, "sales.owner": OWNER}


@pytest.mark.parametrize(
    ("claims", "subject"),
    [
        ({"sub": "alice", "azp": "app"}, "oidc:alice"),
        ({"azp": "app", "appid": "other"}, "oidc:app"),
        ({"appid": "app"}, "oidc:app"),
        ({"client_id": "app"}, "oidc:app"),
        ({"sub": "x" * 200}, "oidc:" + "x" * 200),
    ],
)
def test_the_subject_of_a_token_is_the_same_each_time(claims: dict[str, Any], subject: str) -> None:
    assert subject_of(claims) == subject


@pytest.mark.parametrize(
    "claims", [{}, {"sub": ""}, {"sub": "x" * 201}, {"sub": "a b"}, {"sub": "a\x00"}, {"sub": 7, "azp": "app"}]
)
def test_a_token_without_a_subject_is_rejected(claims: dict[str, Any]) -> None:
    with rejected() as rejection:
        subject_of(claims)
    assert rejection.code is Code.UNAUTHENTICATED
    assert rejection.detail in {
        "the token names no subject and no application",
        "the token's claim sub must be 1 to 200 visible ASCII characters",
    }


@pytest.mark.parametrize(
    ("claims", "grants"),
    [
        ({"roles": ["sender"]}, (SENDER,)),
        ({"roles": ["sender", "sales.owner", "sender"]}, (SENDER, OWNER)),
        ({"scp": "openid sender"}, (SENDER,)),
        ({"scope": "sales.owner"}, (OWNER,)),
        ({"scope": ["sales.owner"]}, (OWNER,)),
        ({"roles": "sender"}, (SENDER,)),
        ({"roles": ["Sender", "admin", 7, None]}, ()),
        ({"roles": {"sender": True}}, ()),
        ({"groups": ["sender"]}, ()),
        ({}, ()),
    ],
)
def test_only_roles_and_scopes_that_are_known_grant_anything(claims: dict[str, Any], grants: tuple[Grant, ...]) -> None:
    assert credential_of({"sub": "a", **claims}, GRANTED_BY).grants == grants


def test_a_right_holds_for_the_tables_of_the_grants_that_carry_it_and_no_others() -> None:
    credential = Credential("oidc:a", (SENDER, OWNER))
    registrar = credential.acting_by(Right.REGISTER)
    assert registrar is not None
    assert registrar.may_touch(TableName.parse("sales.orders"))
    assert not registrar.may_touch(TableName.parse("hr.people"))
    ingester = credential.acting_by(Right.INGEST)
    assert ingester is not None
    assert ingester.may_touch(TableName.parse("hr.people"))
    assert ingester.may(Right.REGISTER, TableName.parse("sales.orders"))
    assert not ingester.may(Right.REGISTER, TableName.parse("hr.people"))
    assert credential.acting_by(Right.READ) is None


def test_nothing_is_granted_by_default() -> None:
    assert all(Credential("oidc:a", ()).acting_by(right) is None for right in Right)


def test_the_only_grant_of_a_key_is_its_principal() -> None:
    assert Credential("0011aabb", (OWNER,)).acting_by(Right.INGEST) == Principal(
        "0011aabb", OWNER.rights, OWNER.table_patterns
    )


def test_the_caller_has_the_subject_and_only_the_right_of_the_call() -> None:
    credential = credential_of({"sub": "a", "roles": ["sender", "sales.owner"]}, GRANTED_BY)
    caller = credential.acting_by(Right.REGISTER)
    assert caller == Principal("oidc:a", frozenset({Right.REGISTER}), ("sales.*",), (SENDER, OWNER))


def test_a_key_can_do_all_that_its_one_grant_says() -> None:
    caller = Credential("0011aabb", (OWNER,)).acting_by(Right.INGEST)
    assert caller is not None
    assert caller.may(Right.REGISTER, TableName.parse("sales.orders"))
    assert not caller.may(Right.REGISTER, TableName.parse("hr.people"))
    assert not caller.may(Right.READ, TableName.parse("sales.orders"))


def test_a_caller_may_name_sources_within_its_tables() -> None:
    caller = Principal("0011aabb", OWNER.rights, OWNER.table_patterns)
    assert caller.may_name(SourceName.parse("erp.SALES.orders"))
    assert not caller.may_name(SourceName.parse("erp.hr.people"))
