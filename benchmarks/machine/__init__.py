"""The machine, the processes and what they use."""
