"""The per-template path as a few fused GPU kernels, in Pallas: what `resample`, `spectrum` and `combine` do.

Between two kernels a series crosses the device's memory once each way, and nothing else does: neither the resampled
series of each detector, nor Fa and Fb. Each kernel does one radix of the transform in registers.
"""
