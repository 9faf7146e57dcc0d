"""What a code means: the texts of `amp-migrate explain` and of the pages under docs/rules."""
