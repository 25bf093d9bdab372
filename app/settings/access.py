"""Settings of callers: the administrator's key, access tokens and rate limits."""

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from app.domain.access.api_key import ApiKey
from app.errors import RejectedInput


class GrantedRights(BaseModel, use_attribute_docstrings=True):
    """What a role or scope of a token grants: rights, and the patterns of the tables that they apply to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rights: Annotated[list[Literal["ingest", "read", "register", "admin"]], Field(min_length=1)]
    tables: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class AccessSettings(BaseModel, use_attribute_docstrings=True):
    """Who may call the API, and how often."""

    admin_key: SecretStr | None = None
    """An API key `mg_<id>_<secret>` with every right on every table, in addition to stored keys."""
    signing_key: Annotated[SecretStr | None, Field(min_length=32)] = None
    """Secret of at least 32 characters from which the signing secrets of keys are derived. The same for all API
    processes; without it, no key can sign."""
    mask_secret: Annotated[SecretStr | None, Field(min_length=32)] = None
    """Secret of at least 32 characters for the hashes of masked columns. The same for all API processes, which compare
    it with the database; docs/operations.md says how to change it. Without it, no table can have such a mask."""
    oidc_issuer: str | None = None
    """Issuer of OpenID Connect access tokens that the API accepts, exactly as in `iss`."""
    oidc_audience: Annotated[str | None, Field(min_length=1)] = None
    """Required `aud` of access tokens."""
    oidc_rights: Annotated[dict[str, GrantedRights], NoDecode] = {}
    """Rights by role or scope of an access token, as JSON: `{"<role or scope>": {"rights": ["ingest"], "tables":
    ["sales.*"]}}`."""
    oidc_client_id: Annotated[str | None, Field(min_length=1)] = None
    """Client id of the console at the issuer. With it, people can sign in to the console with their accounts."""
    oidc_client_secret: Annotated[SecretStr | None, Field(min_length=1)] = None
    """Client secret of the console at the issuer. Unset for a public client, which PKCE protects."""
    oidc_redirect_url: str | None = None
    """Where the issuer sends browsers back to: `https://<this gateway>/console/oidc/callback`, as registered at the
    issuer."""
    key_requests_per_second: Annotated[float | None, Field(ge=0.001)] = None
    """Requests per second that an API process accepts from a key without its own limit. Unset: no limit."""
    key_bytes_per_second: Annotated[int | None, Field(gt=0)] = None
    """Bytes of request bodies per second, as sent, that an API process accepts from a key without its own limit. Unset:
    no limit."""

    @property
    def mask_secret_bytes(self) -> bytes | None:
        """The secret of masked columns as bytes."""
        return None if self.mask_secret is None else self.mask_secret.get_secret_value().encode()

    @field_validator("admin_key")
    @classmethod
    def _a_key(cls, value: SecretStr | None) -> SecretStr | None:
        try:
            if value is not None:
                ApiKey.parse(value.get_secret_value())
        except RejectedInput:
            raise ValueError(
                "must be mg_<id>_<secret>: 8 to 32 hexadecimal digits, then 20 to 128 letters, digits, - and _; "
                "`mirrorgate keys generate` prints a new one"
            ) from None
        return value

    @field_validator("oidc_rights", mode="before")
    @classmethod
    def _json_object(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value or "{}")
        except json.JSONDecodeError:
            raise ValueError("must be a JSON object") from None
