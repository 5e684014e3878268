"""Engines transform the data and reduce 2F on a device: XLA everywhere, CUDA kernels on NVIDIA GPUs."""
