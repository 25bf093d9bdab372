"""Memory that requests take, in the API and in the drain, as a multiple of what they count."""
