"""The mirror process with real Spark, real folders and real Delta tables."""
