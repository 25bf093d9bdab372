"""Settings of the connection to Postgres."""

from typing import Annotated

from pydantic import BaseModel, Field, SecretStr, field_validator

from app.errors import Code, Misconfigured


class DatabaseSettings(BaseModel):
    """Where Postgres is, and how long to wait for it."""

    database_url: Annotated[
        SecretStr | None,
        Field(description="Address of Postgres 15 or newer: `postgresql://user:password@host/database`."),
    ] = None
    database_seconds: Annotated[
        float,
        Field(
            ge=1,
            description="Maximum time to wait for an answer from Postgres, in seconds. After it, the connection is "
            "closed and replaced, and requests that needed it get 503. A group of change requests has half of this "
            "time.",
        ),
    ] = 10.0

    @field_validator("database_url")
    @classmethod
    def _postgres_only(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must start with postgresql://")
        return value

    def require_database_url(self) -> str:
        """Return the address of Postgres. Raise Misconfigured `bad_setting` if none is set."""
        if self.database_url is None:
            raise Misconfigured(
                Code.BAD_SETTING,
                "MIRRORGATE_DATABASE_URL is not set",
                remedy="Set it to a Postgres database, or run `mirrorgate up`, which starts a private one.",
            )
        return self.database_url.get_secret_value()
