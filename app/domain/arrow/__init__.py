"""Arrow as bytes: payloads and schemas."""
