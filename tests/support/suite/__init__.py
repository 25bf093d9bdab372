"""How the suite itself runs: its shares, its Hypothesis profiles, its fresh caches."""
