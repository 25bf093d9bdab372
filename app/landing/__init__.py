"""Files live here: the landing zone's contract, its stores, and the steps that make a file visible."""
