"""Readers of request bodies: bytes -> changes, with the position of each message for error messages.

`arcion` reads Arcion's internal CDC format as JSON and CSV, `replicate` Qlik Replicate's JSON, `debezium` Debezium's
events, `rows` plain rows, `arrow` Arrow IPC streams of initial loads; `json` and `csv` are the strict JSON and CSV
under the others, `columnar` what the columnar readers share. `foreign_forms` recognizes a body that was sent to the
wrong endpoint. docs/send/http.md describes the formats. A reader takes bytes and limits as arguments, does no input or
output, and raises RejectedInput naming every wrong message.
"""
