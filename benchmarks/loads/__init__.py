"""What is sent: workloads, messages, and the load generator's process."""
