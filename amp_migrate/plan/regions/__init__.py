"""Autocast regions, in training and in evaluation (rules E)."""
