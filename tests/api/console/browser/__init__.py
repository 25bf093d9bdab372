"""The console in a real Chromium: its pages as a reader, a keyboard, a phone and an attacker use them.

`visitor` drives the browser and collects what it complains about, `stock` fills a gateway with tables in every state,
and `tour` follows every link of the console once. Tests without a Chromium are skipped.
"""
