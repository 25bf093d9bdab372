"""Pure rules of publication: plans, the metadata chain, back-pressure."""
