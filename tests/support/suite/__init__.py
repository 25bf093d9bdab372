"""How the suite itself runs: its selection, its shares and its Hypothesis profiles."""
