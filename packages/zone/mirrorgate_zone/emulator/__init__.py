"""Fabric open mirroring on one machine: OneLake's storage services and Fabric's REST API for mirrored databases.

The storage services answer over TLS as the Azure SDK uses them. They are strict: they reject what OneLake rejects, and
what is not established about OneLake is a switch. They are faithful as far as documentation, the SDK and independent
clients show; a real workspace has the last word.
"""

from mirrorgate_zone.emulator.faults import Effect, Fault, Faults, Switches, answer
from mirrorgate_zone.emulator.onelake import ITEM, LANDING_ZONE, TOKEN, WORKSPACE, OneLake, Trust, certificates, served
from mirrorgate_zone.emulator.storage_tree import Rejected

__all__ = [
    "ITEM",
    "LANDING_ZONE",
    "TOKEN",
    "WORKSPACE",
    "Effect",
    "Fault",
    "Faults",
    "OneLake",
    "Rejected",
    "Switches",
    "Trust",
    "answer",
    "certificates",
    "served",
]
