import torch

DistributedDataParallel = torch.nn.parallel.DistributedDataParallel
SyncBatchNorm = torch.nn.BatchNorm2d


def convert_syncbn_model(module, process_group=None, channel_last=False):
    return module
