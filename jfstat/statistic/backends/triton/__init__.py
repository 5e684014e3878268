"""The `triton` backend: 2F by a few Pallas-Triton kernels, on NVIDIA GPUs.

They compute the same as `resample`, `spectrum` and `combine`. Between two kernels a series is written to the device's
memory and read once. The resampled series of each detector, Fa and Fb are never stored. Each kernel computes one radix
of the transform in registers.
"""
