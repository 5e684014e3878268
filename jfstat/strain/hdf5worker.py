"""A program that reads HDF5 files for `strain.hdf5`: some damaged files crash HDF5's library, others keep it in a loop.

It imports nothing of jfstat, so that it starts in a fraction of a second. Requests are lines of JSON, and so are the
replies; the bytes of an array follow.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

READY = b"ready for HDF5 files\n"
"""What is said first."""
LARGEST_RATIO = 1032
"""Bytes that deflate stores in one, at most."""
MOST_VALUES = 64
"""Most values that a description holds; larger datasets are read as arrays."""


class Refusal(Exception):
    """What is wrong with a file, as a part of a sentence."""


def main() -> None:
    """Answer requests until there are no more."""
    # replies go where standard output went, and whatever else is printed to standard error
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    replies.write(READY)
    replies.flush()
    sys.path[:] = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        request = json.loads(line)
        content = b""
        try:
            _limit(request["seconds"])
            reply, content = _answer(**request["task"])
        except Refusal as error:
            reply = {"error": str(error)}
        except Exception as error:  # whatever HDF5 finds wrong
            reply = {"error": f"it is damaged ({' '.join(str(error).split())[:200]})"}
        replies.write(json.dumps(reply).encode() + b"\n" + content)
        replies.flush()


def _limit(seconds: int) -> None:
    """Have this process ended after some more seconds of computing; waiting for a slow disk does not count."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = math.ceil(usage.ru_utime + usage.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft if most == resource.RLIM_INFINITY else min(soft, most), most))


def _answer(path: str, names: list[str], part: list[int] | None = None) -> tuple[dict, bytes]:
    """Describe datasets, or return a part of one dataset."""
    import h5py
    import numpy as np

    with open(path, "rb") as raw:
        size = Path(path).stat().st_size
        try:
            file = h5py.File(raw, "r")
        except Exception:
            raise Refusal("it is not an HDF5 file, or it is damaged") from None
        with file:
            every = {name: _dataset(file, name, size) for name in names}
            if part is None:
                _require_apart(every)
                return {name: _described(found, name) for name, found in every.items()}, b""
            found = every[names[0]]
            if found is None:
                raise Refusal("it is damaged, or was replaced")
            if found.chunks is not None:
                # of a chunk that is not found where it is looked for, HDF5 would make zeros; this raises an error
                chunk = found.chunks[0]
                for first in range(part[0] // chunk * chunk, part[1], chunk):
                    found.id.read_direct_chunk((first,))
            x = found[part[0] : part[1]]
            x = np.ascontiguousarray(x, {"f": "<f8", "u": "<u8"}.get(x.dtype.kind, "<i8"))
            return {"dtype": x.dtype.str, "n": x.size}, x.tobytes()


def _dataset(file: Any, name: str, size: int) -> Any:
    """Return a dataset whose values lie in this file of `size` bytes, or None if there is none."""
    import h5py

    place = file
    for part in name.split("/"):
        if not isinstance(place, h5py.Group) or place.get(part, getclass=True, getlink=True) is None:
            return None
        if not isinstance(place.get(part, getlink=True), h5py.HardLink):
            raise Refusal(f"its {name} is a link, which may lead to another file")
        place = place[part]
    if not isinstance(place, h5py.Dataset):
        raise Refusal(f"its {name} is no dataset")
    if place.is_virtual or place.external:
        raise Refusal(f"the values of its {name} are in other files")
    if place.shape is None:
        raise Refusal(f"its {name} is empty")
    if place.dtype.kind in "fiu" and place.id.get_type() != h5py.h5t.py_create(place.dtype):
        raise Refusal(f"its {name} is of a type that no processor has")
    stored, wanted = place.id.get_storage_size(), place.size * place.dtype.itemsize
    whole = stored >= wanted if place.chunks is None else _all_chunks(place) and LARGEST_RATIO * stored >= wanted
    if not whole or stored > size:
        raise Refusal(f"its {stored} stored bytes are not all of the {place.size} values of its {name}")
    return place


def _all_chunks(dataset: Any) -> bool:
    """Return whether each chunk of a dataset is stored, once, and with all filters."""
    counts = [-(-n // chunk) for n, chunk in zip(dataset.shape, dataset.chunks, strict=True)]
    n_chunks, found = dataset.id.get_num_chunks(), []
    if n_chunks != math.prod(counts):
        return False
    dataset.id.chunk_iter(found.append)
    places = {info.chunk_offset for info in found if info.filter_mask == 0}
    grid = (range(0, n * chunk, chunk) for n, chunk in zip(counts, dataset.chunks, strict=True))
    return len(found) == n_chunks and places == set(itertools.product(*grid))


def _require_apart(every: dict[str, Any]) -> None:
    """Raise a Refusal if bytes of the file belong to two datasets, or to two chunks: one of them lies elsewhere."""
    places = []
    for name, dataset in every.items():
        if dataset is not None and dataset.chunks is not None:
            dataset.id.chunk_iter(lambda info, name=name: places.append((info.byte_offset, info.size, name)))
        elif dataset is not None and dataset.id.get_offset() is not None:
            places.append((dataset.id.get_offset(), dataset.id.get_storage_size(), name))
    for (first, n, name), (other, _, another) in itertools.pairwise(sorted(places)):
        if first + n > other:
            raise Refusal(f"it is damaged: values of {name} and {another} are in the same place")


def _described(found: Any, name: str) -> dict[str, Any] | None:
    """Describe a dataset: its kind, shape and attributes, and its values if they are few."""
    if found is None:
        return None
    attributes = {
        key: _plain(found.attrs[key], name) for key in ("Xstart", "Xspacing", "Npoints") if key in found.attrs
    }
    values = _plain(found[()], name) if found.size <= MOST_VALUES else None
    return {
        "kind": found.dtype.kind,
        "type": str(found.dtype),
        "shape": found.shape,
        "attributes": attributes,
        "values": values,
    }


def _plain(x: Any, name: str) -> list[Any]:
    """Return numbers and texts as JSON has them."""
    import numpy as np

    values = np.ravel(np.asarray(x)).tolist()
    try:
        values = [x.decode() if isinstance(x, bytes) else x for x in values]
    except UnicodeDecodeError:
        values = [None]
    if not all(isinstance(x, (str, int, float)) for x in values):
        raise Refusal(f"its {name} holds neither numbers nor text")
    return values


if __name__ == "__main__":
    main()
