"""What a model and its losses need to survive half precision: repairs that are exact and local, or a refusal (rule H4).

Apex and half-precision scripts prove that they train in half. A plain loop never did, so everything that its forward
reaches is read. What was measured about each pattern stands beside the code that looks for it: dtypes and errors with
fake tensors on torch 2.13's own CUDA autocast, values on its CPU kernels under CUDA's policy.
"""
