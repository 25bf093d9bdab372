"""`mirrorgate up`."""
