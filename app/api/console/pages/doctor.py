"""`/console/doctor`: what `mirrorgate doctor` says, as far as an API process can see it.

The page asks Postgres and this machine. The landing zone is examined only by a form, because the probe writes into it
and takes seconds where it is remote. Both run in a worker thread, and the probe one at a time.
"""

import os
import threading
from typing import Final

from fastapi import APIRouter, Request, Response

from app.api.console.answers import page
from app.api.console.forms import ConsoleForm
from app.api.console.sessions import ConsoleUser, SignedIn
from app.api.gateway import Gateway, GatewayDep
from app.domain.access.rights import Right
from app.domain.preflight import Finding, Outcome
from mirrorgate.errors import Code, TemporarilyUnavailable

router = APIRouter()

PATH: Final = "/console/doctor"

_ORDER: Final = (Outcome.UNSAFE, Outcome.WARNING, Outcome.OK)
_RETRY_SECONDS: Final = 5
_probing: Final = threading.Lock()


@router.get(PATH)
def doctor(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Show what the checks of Postgres and of this machine found."""
    user.require(Right.ADMIN, every_table=True)
    return _examined(request, user, gateway, with_zone=False)


@router.post(PATH)
def probe(request: Request, user: ConsoleUser, _: ConsoleForm, gateway: GatewayDep) -> Response:
    """Examine the landing zone too. Raises TemporarilyUnavailable `overloaded` while another request does."""
    user.require(Right.ADMIN, every_table=True)
    if not _probing.acquire(blocking=False):
        raise TemporarilyUnavailable(
            Code.OVERLOADED,
            "the landing zone is being examined already",
            retry_after=_RETRY_SECONDS,
            remedy="Wait some seconds, then open the doctor again.",
        )
    try:
        return _examined(request, user, gateway, with_zone=True)
    finally:
        _probing.release()


def _examined(request: Request, user: SignedIn, gateway: Gateway, *, with_zone: bool) -> Response:
    # Imported here: an API process needs nothing of the landing zone until a user asks for it.
    from app.checks.preflight import examine, examine_machine
    from app.zone_settings import zone_address

    settings = gateway.settings
    address = zone_address(settings) if settings.landing_zone else None
    findings: list[Finding] = examine(
        address if with_zone else None,
        settings.require_database_url(),
        os.environ,
        mask_secret=gateway.ingest.mask_secret,
        is_api=True,
    )
    findings += examine_machine(settings)
    return page(
        request,
        "doctor.html",
        user.chrome("doctor"),
        findings=sorted(findings, key=lambda finding: _ORDER.index(finding.outcome)),
        troubles=sum(finding.outcome is not Outcome.OK for finding in findings),
        zone=None if address is None else address.location,
        is_zone_examined=with_zone,
    )
