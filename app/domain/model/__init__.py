"""The nouns: tables, schemas, options, changes, landing files."""
