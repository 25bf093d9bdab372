from tests.support.fabric.fixtures import clock, fabric, open_client
from tests.support.onelake.fixtures import trust

__all__ = ["clock", "fabric", "open_client", "trust"]
