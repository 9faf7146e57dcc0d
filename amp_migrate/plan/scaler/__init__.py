"""The scaler: when it is on, where it lives, who sees it (rules A, B)."""
