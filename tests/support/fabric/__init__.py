"""An endpoint that answers as Fabric's REST API does, as far as Microsoft documents it, and one that issues tokens."""
