"""The figures of reading and accepting changes, and of the whole way, each with a goal."""
