"""How the suite itself runs: its shares, its Hypothesis profile."""
