"""Transform the data and reduce 2F on a device: by XLA everywhere, by CUDA kernels on NVIDIA GPUs."""
