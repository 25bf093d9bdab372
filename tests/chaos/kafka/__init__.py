"""Kills of bridge processes, rebalances and lost answers: every record of the topics lands once, in its order."""
