"""Compiler options under which results are the same to the last bit, on any number of cores."""

ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}
"""Compiler options for a computation that gives the same bits every time, whatever the number of cores.

On several threads XLA's FFT groups its transforms by the threads that happen to be free, and matrix products are
divided by the number of threads; both change the rounding. `data.workers.in_order` keeps the cores busy
instead, by running several computations at a time.
"""

LONG_VECTORS = ONE_THREAD | {"xla_cpu_prefer_vector_width": 512}
"""The same, with the longest vectors that a CPU has: sums over segments take a fifth less time, with the same bits."""

NO_TRIALS = ONE_THREAD | {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
"""The same, and on GPUs matrix products by NVIDIA's library and its first method, instead of by kernels that are made
for each product, or by the fastest of several methods, which round differently. Making kernels and trying methods take
longer than small products do."""
