"""Errors of Fabric's API: a token, a right, a mirrored database, or the service itself is missing."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import Entry
from app.errors.codes import Code, Kind

FABRIC: Final[Mapping[Code, Entry]] = {
    Code.FABRIC_UNAUTHORIZED: Entry(
        Kind.MISCONFIGURED,
        "Azure gave no token for Fabric's API, or Fabric does not accept it.",
        "Check the AZURE_* variables. For a service principal, a Fabric administrator has to enable `Service "
        "principals can use Fabric APIs` in the tenant settings. `mirrorgate fabric doctor` shows which step fails.",
    ),
    Code.FABRIC_FORBIDDEN: Entry(
        Kind.MISCONFIGURED,
        "The identity has no right to this call in the workspace.",
        "Give it the role Contributor or higher in the workspace: Manage access, Add people or groups.",
    ),
    Code.FABRIC_NOT_FOUND: Entry(
        Kind.MISCONFIGURED,
        "Fabric has no such workspace or mirrored database, or this identity may not see it.",
        "Check the name or id, and that the identity has a role in the workspace. A workspace on a paused capacity "
        "does not list its items: resume the capacity.",
    ),
    Code.FABRIC_REJECTED: Entry(
        Kind.MISCONFIGURED,
        "Fabric rejected the request, or its operation failed.",
        "The message has Fabric's own code and text. docs/fabric.md lists the states and what to do about each.",
    ),
    Code.FABRIC_THROTTLED: Entry(
        Kind.UNAVAILABLE,
        "Fabric limits the number of requests, and asks to wait for longer than the command does.",
        "Wait for the time in the message, then run the command again.",
    ),
    Code.FABRIC_UNAVAILABLE: Entry(
        Kind.UNAVAILABLE,
        "Fabric's API did not answer, failed, or has not finished an operation in time.",
        "Run the command again later. If it stays so, check MIRRORGATE_FABRIC_API and the network.",
    ),
    Code.FABRIC_NOT_RUNNING: Entry(
        Kind.MISCONFIGURED,
        "The mirrored database did not reach the state that was asked for.",
        "Run `mirrorgate fabric doctor`, and see the states in docs/fabric.md.",
    ),
    Code.FABRIC_NOT_PREPARED: Entry(
        Kind.MISCONFIGURED,
        "Registered tables have no metadata or no file in the landing zone yet, so mirroring should not start.",
        "Run the drain until `mirrorgate status` shows the tables, or start anyway with --force.",
    ),
}
