"""Trusting one certificate: that of a gateway on this machine, which need not bear the machine's name."""

import ssl
from pathlib import Path


def trusting_only(certificate: Path) -> ssl.SSLContext:
    """A client's context that takes this certificate, or one that it has signed, and no other; names are not compared.

    Raises OSError for a file that is none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(certificate)
    return context
