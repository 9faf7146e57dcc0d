"""O1's cast lists: which functions get fp16, which fp32, which promote.  Scripts edit them before `initialize`."""
