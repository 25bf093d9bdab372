"""Settings that say how long the gateway keeps what it no longer needs for publication."""

from typing import Annotated

from pydantic import BaseModel, Field


class RetentionSettings(BaseModel):
    """How long payloads, the ledger and the audit are kept."""

    retention_days: Annotated[
        float, Field(gt=0, description="Days to keep payloads of published files, ledger entries and receipts.")
    ] = 7.0
    retention_bytes: Annotated[
        int,
        Field(
            ge=2**20,
            description="Payload bytes in Postgres beyond which payloads of published files are deleted earlier, "
            "oldest first.",
        ),
    ] = 64 * 2**30
    history_days: Annotated[
        float,
        Field(gt=0, le=31, description="Days to keep the history of rates and lag that the console plots."),
    ] = 2.0
    load_idle_hours: Annotated[
        float, Field(gt=0, description="Hours after its last request at which a load session expires.")
    ] = 24.0
    audit_days: Annotated[
        float,
        Field(gt=0, description="Days to keep audit events: operations on keys, registrations and rejections."),
    ] = 90.0
