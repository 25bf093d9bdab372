"""OneLake and ADLS Gen2."""
