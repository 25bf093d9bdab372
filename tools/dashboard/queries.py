"""Queries of the dashboard, about the tables that its variable `table` chooses.

Every API replica reports all tables, so queries about tables take the maximum over the replicas.
"""

from typing import Final

TABLE: Final = '{table=~"$table"}'


def of_tables(metric: str) -> str:
    """Return a gauge of the chosen tables, once for each table."""
    return f"max by (table) ({metric}{TABLE})"


def rate_of_tables(metric: str) -> str:
    """Return the growth per second of a counter of all chosen tables together."""
    return f"sum(max by (table) (rate({metric}{TABLE}[$__rate_interval])))"


def rate(metric: str, by: str = "", matching: str = "") -> str:
    """Return the growth per second of a counter of all processes."""
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{matching}[$__rate_interval]))"


def quantiles(metric: str, matching: str = "") -> dict[str, str]:
    """Return the median and two high quantiles of a histogram of seconds, by their legends."""
    buckets = f"sum by (le) (rate({metric}_bucket{matching}[$__rate_interval]))"
    return {f"{share:.0%}": f"histogram_quantile({share}, {buckets})" for share in (0.5, 0.95, 0.99)}
