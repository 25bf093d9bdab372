"""Settings of Fabric's API: which mirrored database reads the landing zone, and where it is asked for its state."""

from typing import Annotated

from pydantic import BaseModel, Field


class FabricSettings(BaseModel):
    """The mirrored database, and the addresses of Fabric's API."""

    fabric_workspace: Annotated[
        str | None,
        Field(
            min_length=1,
            description="Name or id of the workspace with the mirrored database. Unset: the one in the landing zone's "
            "address, if that is in OneLake.",
        ),
    ] = None
    fabric_database: Annotated[
        str | None,
        Field(
            min_length=1,
            description="Name or id of the mirrored database. Unset: the one in the landing zone's address, if that "
            "is in OneLake.",
        ),
    ] = None
    fabric_api: Annotated[
        str,
        Field(
            pattern="^https://[^/@?#]+$",
            description="Address of Fabric's API: another one in a national cloud, or of a private link.",
        ),
    ] = "https://api.fabric.microsoft.com"
    fabric_audience: Annotated[
        str,
        Field(
            pattern="^https://[^@?#]+$",
            description="Audience of the tokens for Fabric's API. Another one in a national cloud only; "
            "`AZURE_AUTHORITY_HOST` then names the authority that issues them.",
        ),
    ] = "https://api.fabric.microsoft.com"
    fabric_poll_seconds: Annotated[
        float,
        Field(
            ge=0,
            description="How often drains together ask Fabric's API for the state of the mirrored database and its "
            "tables, in seconds. 0: never.",
        ),
    ] = 60.0
