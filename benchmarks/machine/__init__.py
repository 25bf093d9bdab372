"""The machine, the processes and the resources they use."""
