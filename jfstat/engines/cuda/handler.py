"""Make Python functions targets of XLA's foreign function interface, without any compiled code of our own.

XLA calls a target by a C function pointer, which ctypes makes. The structures come from ``xla/ffi/api/c_api.h``, which
jaxlib ships; only their leading fields are declared. `jax.ffi` registers the pointer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

POINTER, INT32, INT64, SIZE = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t
METADATA_EXTENSION = 1
COMMAND_BUFFER_COMPATIBLE = 1
"""Trait of targets that only launch kernels: XLA may record and repeat their work."""
MAJOR = 0
"""Version XLA_FFI_API_MAJOR for which the structures are declared."""
INTERNAL = 13
"""Error code XLA_FFI_Error_Code_INTERNAL."""


def _structure(name: str, **fields: Any) -> Any:
    """Return a structure type that begins with the fields common to all of them."""
    return type(name, (ctypes.Structure,), {"_fields_": [("size", SIZE), *fields.items()]})


_Extension = _structure("Extension", type=INT32, next=POINTER)
_Version = _structure("Version", extension=POINTER, major=INT32, minor=INT32)
_Metadata = _structure("Metadata", api_version=_Version, traits=ctypes.c_uint32, state_type_id=INT64)


class _MetadataExtension(ctypes.Structure):
    _fields_ = (("base", _Extension), ("metadata", ctypes.POINTER(_Metadata)))


_Buffer = _structure("Buffer", extension=POINTER, dtype=INT32, data=POINTER, rank=INT64, dims=ctypes.POINTER(INT64))
_Buffers = _structure(
    "Buffers", extension=POINTER, n=INT64, types=POINTER, items=ctypes.POINTER(ctypes.POINTER(_Buffer))
)
_StreamRequest = _structure("StreamRequest", extension=POINTER, context=POINTER, stream=POINTER)
_Api = _structure(
    "Api",
    extension=POINTER,
    version=_Version,
    internal=POINTER,
    error_create=POINTER,
    error_message=POINTER,
    error_destroy=POINTER,
    register=POINTER,
    stream_get=ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(_StreamRequest)),
)
_ErrorRequest = _structure("ErrorRequest", extension=POINTER, message=ctypes.c_char_p, code=INT32)
_Frame = _structure(
    "Frame",
    extension=ctypes.POINTER(_Extension),
    api=ctypes.POINTER(_Api),
    context=POINTER,
    stage=INT32,
    arguments=_Buffers,
    results=_Buffers,
)
_HANDLER = ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(_Frame))

_registered: dict[tuple[str, str], Any] = {}
"""Function pointers by target and platform: XLA keeps addresses only, so they must live as long as the process."""


class Array(NamedTuple):
    """Argument or result of a call.

    Attributes
    ----------
    address : int
        Address on the device.
    shape : tuple of int
    """

    address: int
    shape: tuple[int, ...]


def register(target: str, call: Callable[[int | None, list[Array]], None], platform: str = "CUDA") -> None:
    """Let XLA call a Python function by a target's name; a name is registered once.

    Parameters
    ----------
    target : str
    call : callable
        Function of the stream (None on a CPU) and the arrays, arguments before results. What it raises becomes XLA's
        error.
    platform : str
    """
    if (target, platform) in _registered:
        return

    @_HANDLER
    def handler(pointer: Any) -> int | None:
        frame = pointer.contents
        if frame.extension and frame.extension.contents.type == METADATA_EXTENSION:
            _describe(frame)
            return None
        try:
            arrays = [*_arrays(frame.arguments), *_arrays(frame.results)]
            call(_stream(frame) if platform == "CUDA" else None, arrays)
        except BaseException as error:  # nothing may leave a C callback
            create = ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(_ErrorRequest))(frame.api.contents.error_create)
            size, message = ctypes.sizeof(_ErrorRequest), str(error) or type(error).__name__
            return create(ctypes.byref(_ErrorRequest(size, None, message.encode(), INTERNAL)))
        return None

    _registered[target, platform] = handler
    jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(ctypes.cast(handler, POINTER).value), platform=platform)


def _describe(frame: Any) -> None:
    """Answer XLA's question about the version of the interface."""
    metadata = ctypes.cast(frame.extension, ctypes.POINTER(_MetadataExtension)).contents.metadata.contents
    own = frame.api.contents.version if frame.api else None
    # structures of another major version could be read wrongly: XLA then refuses the target
    minor = own.minor if own is not None and own.major == MAJOR else 0
    metadata.api_version.major, metadata.api_version.minor = MAJOR, minor
    metadata.traits = COMMAND_BUFFER_COMPATIBLE


def _arrays(buffers: Any) -> list[Array]:
    own = [buffers.items[i].contents for i in range(buffers.n)]
    return [Array(buffer.data or 0, tuple(buffer.dims[: buffer.rank])) for buffer in own]


def _stream(frame: Any) -> int | None:
    request = _StreamRequest(ctypes.sizeof(_StreamRequest), None, frame.context, None)
    frame.api.contents.stream_get(ctypes.byref(request))
    return request.stream
