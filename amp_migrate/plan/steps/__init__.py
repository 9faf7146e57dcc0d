"""Training steps: their events, and where unscale_ and update go (rules C, D)."""
