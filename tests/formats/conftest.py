"""Every test works out layouts anew."""

from tests.support.suite.fresh_caches import fresh_caches as _  # noqa: F401  # an autouse fixture
