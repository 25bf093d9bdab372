"""Requests that Schemathesis makes from the contract, valid and invalid ones."""
