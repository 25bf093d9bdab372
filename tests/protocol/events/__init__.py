"""What happens outside the steps of a drain: the landing zone, its users and mirroring, operators, and rebuilds."""
