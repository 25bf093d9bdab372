"""The drain: a Spark driver that turns staged batches into published landing files, in order."""
