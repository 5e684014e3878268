"""Compiler options that make results equal to the last bit, on any number of cores."""

NO_TRIALS = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
"""Compiler options that keep XLA from timing several kernels for an operation on GPUs and taking the fastest. The next
process may find another one the fastest, which rounds differently, and the trials take time. With these options
small products of matrices are computed by NVIDIA's library, by its first method. Searches over segments take 2 %
longer, others as long."""

SAME_BITS = NO_TRIALS | {"xla_cpu_multi_thread_eigen": False}
"""Compiler options for a computation that gives the same bits every time, whatever the number of cores.

On several threads XLA's FFT groups its transforms by the threads that happen to be free, and matrix products are
divided by the number of threads; both change the rounding. `data.workers.in_order` keeps the cores busy
instead, by running several computations at a time.
"""

LONG_VECTORS = SAME_BITS | {"xla_cpu_prefer_vector_width": 512}
"""Compiler options of `SAME_BITS` with the longest vectors that a CPU has: sums over segments take a fifth less time,
with the same bits."""
