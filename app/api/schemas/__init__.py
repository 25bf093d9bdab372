"""The JSON of the API as pydantic models; their docstrings are the descriptions in the contract.

`common` has what all models share, such as strict times and problem details. The other modules have the inputs and
answers of one resource each; the messages of change requests are in `app/api/openapi/messages.yaml`. `recovery` has the
models of the routes that compare and restore tables. `registrations` turns a declared table into the domain's schema
and options, and `table_status` reads the status of tables from the database.
"""
