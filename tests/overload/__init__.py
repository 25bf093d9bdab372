"""Ten times as much load as an API process takes on: nothing accepted is lost, memory stays bounded, others go on."""
