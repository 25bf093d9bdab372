from tests.support.fabric.fixtures import clock, fabric, onelake, open_client
from tests.support.onelake.fixtures import trust

__all__ = ["clock", "fabric", "onelake", "open_client", "trust"]
