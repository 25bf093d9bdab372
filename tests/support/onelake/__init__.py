"""A stand-in for OneLake and ADLS Gen2: a TLS server with the DFS and blob services as the Azure SDK uses them.

It is strict: what OneLake rejects it rejects, and what nobody has established about OneLake is a switch. It is
faithful as far as documentation, the SDK and independent clients show; a real workspace has the last word.
"""

from tests.support.onelake.endpoint import ITEM, LANDING_ZONE, TOKEN, WORKSPACE, OneLake, Trust, certificates, served
from tests.support.onelake.faults import Effect, Fault, Faults, Switches, answer
from tests.support.onelake.tree import Rejected

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
