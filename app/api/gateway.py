"""What every route needs, built once by the composition root."""

import threading
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.api.auth.authenticator import Authenticator
from app.api.cached_answer import CachedAnswer
from app.api.schemas.probes import GatewayStatusModel
from app.domain.model.input_limits import InputLimits
from app.ingest import Ingest
from app.settings import Settings
from app.staging.access.audit_writer import AuditWriter
from app.staging.connection.database import Engine
from app.staging.writer.writer_probe import WriterProbe


@dataclass(frozen=True, slots=True)
class Gateway:
    """The parts of one API process."""

    settings: Settings
    engine: Engine
    authenticator: Authenticator
    audit_writer: AuditWriter
    ingest: Ingest
    writer: WriterProbe
    statusz: CachedAnswer[GatewayStatusModel]
    staged: threading.Event
    """Set after a commit that the drain should look at soon."""

    @property
    def input_limits(self) -> InputLimits:
        return InputLimits(self.settings.max_request_messages, self.settings.max_value_bytes)

    def wake_drain(self) -> None:
        self.staged.set()


def gateway_of(request: Request) -> Gateway:
    """The gateway of the running app."""
    gateway: Gateway = request.app.state.gateway
    return gateway


async def _dependency(request: Request) -> Gateway:
    """A coroutine, since the framework calls a plain function in a thread."""
    return gateway_of(request)


GatewayOf = Annotated[Gateway, Depends(_dependency)]
