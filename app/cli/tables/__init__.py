"""`mirrorgate tables …`: the commands that list, declare and operate tables."""
