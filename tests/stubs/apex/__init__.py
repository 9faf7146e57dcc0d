"""What the fixtures need of Apex to run in float32: `amp.initialize` changes nothing and losses are not scaled.

Written for these tests; it says nothing about how Apex trains in mixed precision.
"""

from . import amp, parallel  # noqa: F401
