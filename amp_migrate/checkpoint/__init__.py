"""`amp-migrate checkpoint`: what Apex saved, as native code loads it; and back.

The modules here import torch, so the command imports them when it runs and nothing else does.
"""
