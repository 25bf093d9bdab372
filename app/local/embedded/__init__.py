"""What `mirrorgate up` brings for one machine: a locked data directory, a private Postgres, a Java."""

from app.local.embedded.data_directory import DataDirectory
from app.local.embedded.java import find_java, require_java
from app.local.embedded.postgres import PrivatePostgres, find_programs, running_url

__all__ = ["DataDirectory", "PrivatePostgres", "find_java", "find_programs", "require_java", "running_url"]
