"""A OneLake endpoint per test; the certificate authority is created once."""

from tests.support.onelake.fixtures import new_onelake, onelake, trust

__all__ = ["new_onelake", "onelake", "trust"]
