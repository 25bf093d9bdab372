"""Source bytes -> changes. Pure: no I/O, no clock; every rejection says which message, where and why."""
