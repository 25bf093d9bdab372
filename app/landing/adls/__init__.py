"""Landing zones in OneLake and ADLS Gen2.

`address` parses what an operator writes. `zone` keeps the contract of `app.landing.zone` with conditional requests,
moves file contents and probes the service; `retries` repeats requests, because the SDK's own retries would misreport a
lost answer (decision 0007). `client` has the requests and is the only importer of Azure's SDK.
"""
