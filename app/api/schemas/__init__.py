"""The JSON that the API takes and gives, as pydantic models."""
