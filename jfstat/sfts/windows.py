"""Windows of SFTs: their names, their codes in SFT headers, and their samples."""

from __future__ import annotations

import numpy as np

# LIGO-T040164 and LALSuite's SFTnaming.c: code = 5001 A + B; A = 0 for windows without a parameter, 1 for Tukey's,
# whose parameter beta is B / 5000.
_CODES = {"unknown": 0, "rectangular": 1, "hann": 2}
_TUKEY = 5001
TUKEY_STEPS = 5000


def window_code(name: str) -> int:
    """Return the code of a window in the header of an SFT (version 3).

    Parameters
    ----------
    name : str
        ``"unknown"``, ``"rectangular"``, ``"hann"`` or ``"tukey:<beta>"``.

    Returns
    -------
    int
        0, 1, 2 or 5001 + 5000 beta.

    Raises
    ------
    ValueError
        If the name is not one of these, or beta is not a multiple of 1/5000 from 0 to 1: files cannot hold others.
    """
    if name in _CODES:
        return _CODES[name]
    steps = TUKEY_STEPS * tukey_beta(name)
    if abs(steps - round(steps)) > 1e-6:
        raise ValueError(f"window {name!r} does not fit in an SFT header: round beta to a multiple of 1/{TUKEY_STEPS}.")
    return _TUKEY + round(steps)


def window_name(code: int) -> str:
    """Return the name of the window with a header code, the inverse of `window_code`.

    Raises
    ------
    ValueError
        If no window has this code.
    """
    if _TUKEY <= code <= _TUKEY + TUKEY_STEPS:
        return f"tukey:{(code - _TUKEY) / TUKEY_STEPS:g}"
    for name, known in _CODES.items():
        if code == known:
            return name
    raise ValueError(f"window code {code} is unknown: use 0, 1, 2 or {_TUKEY} to {_TUKEY + TUKEY_STEPS}.")


def samples_of(name: str, n: int) -> np.ndarray:
    """Return the samples of the window that SFTs state; an unknown one is taken as rectangular."""
    return window_samples("rectangular" if name == "unknown" else name, n)


def window_samples(name: str, n: int) -> np.ndarray:
    """Return the samples of a window, scaled to unit root mean square.

    Parameters
    ----------
    name : str
        ``"rectangular"``, ``"hann"`` or ``"tukey:<beta>"``.
    n : int
        Number of samples.

    Returns
    -------
    (n,) float64 ndarray
        The samples, including both ends, of LALSuite's ``XLALCreateRectangularREAL8Window``,
        ``XLALCreateHannREAL8Window`` or ``XLALCreateTukeyREAL8Window`` (``Window.c``), divided by their rms.

    Raises
    ------
    ValueError
        If the window is unknown or all its samples are zero.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1 sample, not {n}: ask for a longer window.")
    # distance of each sample from the nearer end
    edge = np.minimum(np.arange(n), np.arange(n)[::-1])
    if name == "rectangular":
        samples = np.ones(n)
    elif name == "hann":
        samples = np.sin(np.pi * edge / (n - 1)) ** 2 if n > 1 else np.ones(1)
    elif name == "unknown":
        raise ValueError("window 'unknown' has no samples: name the window, as in 'hann' or 'tukey:0.5'.")
    else:
        # round halves up, as C's round(); the transitions are halves of a Hann window of this length
        transition = int(np.floor(tukey_beta(name) * n + 0.5))
        samples = np.ones(n)
        if transition > 1:
            rising = edge < (transition + 1) // 2
            samples[rising] = np.sin(np.pi * edge[rising] / (transition - 1)) ** 2
    rms = np.sqrt(np.mean(samples**2))
    if rms == 0:
        raise ValueError(f"window {name!r} vanishes on all of its {n} samples: ask for a longer window.")
    return samples / rms


def tukey_beta(name: str) -> float:
    """Return the tapered fraction of ``"tukey:<beta>"``; raise a ValueError for any other name."""
    kind, _, parameter = name.partition(":")
    try:
        beta = float(parameter)
    except ValueError:
        beta = -1.0
    if kind != "tukey" or not 0 <= beta <= 1:
        raise ValueError(
            f"window {name!r} is unknown: use 'rectangular', 'hann' or 'tukey:<beta>' with beta from 0 to 1, "
            "or 'unknown' for files."
        )
    return beta
