"""Ten times the load that an API process accepts: nothing accepted is lost, memory is bounded, others continue."""
