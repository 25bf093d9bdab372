"""The JSON of the API as pydantic models; their docstrings are the descriptions in the contract.

`common` has what all models share, such as strict times and problem details. The other modules have the inputs and
answers of their subject, and turn them into what the domain takes. The messages of change requests are in
`app/api/openapi/messages.yaml`.
"""
