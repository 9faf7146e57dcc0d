"""Apex's companions: what scripts use of Apex beside amp, and what torch has in its place (rules I).

    model = DistributedDataParallel(model, delay_allreduce=True)
    model = DistributedDataParallel(model, device_ids=[args.local_rank], broadcast_buffers=False)

A second stage, after mixed precision: file by file, and name by name. What has no native form keeps its import, with
a finding that says why; the rest of the file is migrated all the same.
"""
