"""What is sent: workloads, messages, and the process of the load generator."""
