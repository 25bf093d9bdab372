"""What a figure is set beside: programs that do the least possible work."""
