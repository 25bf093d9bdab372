"""The program `mirrorgate`: one module per command or family of commands."""
