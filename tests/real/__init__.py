"""The gateway against programs that others wrote: `make test-real`.

No other target runs this suite, because it downloads its counterparts. `counterparts.py` installs them, `report.py`
writes docs/contribute/real-counterparts.md, and each counterpart has its own test modules.
"""
