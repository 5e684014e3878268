"""Load and launch kernels through the CUDA driver's interface."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

from jfstat.engines.cuda.errors import CudaError

MOST_DYNAMIC_SHARED = 8
"""Attribute number CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES of the driver."""


@cache
def library() -> ctypes.CDLL:
    """Return the driver, initialised.

    Raises
    ------
    CudaError
        If there is none, or it cannot start.
    """
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise CudaError(f"NVIDIA's driver cannot be loaded ({error})") from error
    if code := cuda.cuInit(0):
        raise CudaError(f"NVIDIA's driver cannot start: error {code}")
    return cuda


class Kernel:
    """A kernel of some machine code, ready to be launched on every device.

    Parameters
    ----------
    code : bytes
        Machine code (a cubin).
    name : str
        Name of the kernel.
    threads : int
        Threads of a block.
    shared : int
        Bytes of dynamic shared memory of a block.

    Raises
    ------
    CudaError
        If the driver does not take the code.
    """

    def __init__(self, code: bytes, name: str, threads: int, shared: int):
        cuda, module, kernel, n_devices = library(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        self._code, self._threads, self._shared = code, threads, shared
        _check(cuda.cuLibraryLoadData(ctypes.byref(module), code, None, None, 0, None, None, 0), "loading a kernel")
        _check(cuda.cuLibraryGetKernel(ctypes.byref(kernel), module, name.encode()), f"finding the kernel {name}")
        _check(cuda.cuDeviceGetCount(ctypes.byref(n_devices)), "counting devices")
        for number in range(n_devices.value):
            device = ctypes.c_int()
            _check(cuda.cuDeviceGet(ctypes.byref(device), number), "finding a device")
            # other devices may be too old for this code; they are not used
            cuda.cuKernelSetAttribute(MOST_DYNAMIC_SHARED, shared, kernel, device)
        self._kernel = kernel

    def launch(self, stream: int | None, grid: tuple[int, int, int], arguments: Sequence[int]) -> None:
        """Start the kernel; `arguments` are addresses of arrays on the device."""
        values = [ctypes.c_void_p(address) for address in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        code = library().cuLaunchKernel(
            self._kernel, *grid, self._threads, 1, 1, self._shared, ctypes.c_void_p(stream), pointers, None
        )
        _check(code, "starting a kernel")


def _check(code: int, what: str) -> None:
    if code:
        text = ctypes.c_char_p()
        library().cuGetErrorString(code, ctypes.byref(text))
        raise CudaError(f"NVIDIA's driver fails with error {code}, {(text.value or b'unknown').decode()} ({what})")
