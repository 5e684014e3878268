"""Times of LALSuite's programs on other machines, for pictures of measurements that LALSuite took no part in."""

from __future__ import annotations

from jfstat.benchmarking.settings import Setting

CUDA = "LALSuite's CUDA code, H200"
GENERIC = "LALSuite ResampGeneric, one CPU core"
TAU: dict[str, dict[tuple[float, float], float]] = {
    CUDA: {(1, 0.606): 6.6e-9, (10, 0.606): 2.7e-9, (100, 0.606): 2.6e-9, (10, 0.1): 1.3e-8, (10, 5.0): 7.9e-10},
    GENERIC: {(1, 0.606): 1.24e-7, (5, 0.606): 1.145e-7, (10, 0.606): 1.125e-7},
}
"""Seconds per frequency bin, template and detector by length in d and bandwidth in Hz, at 100 Hz with H1.

The CUDA code (Dunn et al. 2022, with 2F copied to the host) on an NVIDIA H200, timed once; ResampGeneric on one core of
an AMD EPYC, from docs/benchmark_cpu.json."""


def times(setting: Setting, name: str) -> dict[str, tuple[list[float], list[float]]]:
    """Lengths ("days") or bandwidths ("bandwidth"), as `name` says, and taus by program, all else as in `setting`."""
    if setting.frequency != 100.0 or setting.detectors != ("H1",) or setting.one_position:
        return {}
    here, fixed = (0, 1) if name == "days" else (1, 0)
    other = (setting.days, setting.bandwidth)[fixed]
    found = {}
    for program, taus in TAU.items():
        pairs = sorted((key[here], tau) for key, tau in taus.items() if key[fixed] == other)
        if pairs:
            found[program] = ([x for x, _ in pairs], [tau for _, tau in pairs])
    return found
