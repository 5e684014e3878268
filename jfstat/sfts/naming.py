"""Official names of SFT files (LIGO-T040164; ``SFTnaming.c:XLALBuildSFTFilenameFromSpec``)."""

from __future__ import annotations

import re

from jfstat import kinds
from jfstat.public import public
from jfstat.sfts.windows import TUKEY_STEPS, tukey_beta
from jfstat.validation import is_whole, shown

PRIVATE = re.compile("[A-Za-z0-9]{0,100}", re.ASCII)
PUBLIC = re.compile(r"O[1-9][0-9]*(RUN|AUX|SIM|DEV)\+R[1-9][0-9]*\+C[A-Za-z0-9]+\+W[A-Z0-9]+", re.ASCII)
"""Patterns of the description field in the names of private and of public SFTs."""

KINDS = ("RUN", "AUX", "SIM", "DEV")
"""Kinds of SFTs with public names."""


def sft_file_name(
    detector: str,
    n_sfts: int,
    tsft: float,
    start: int,
    span: int,
    *,
    description: str = "",
    band: tuple[int, int] | None = None,
) -> str:
    """Return the name of an SFT file, such as ``H-2_H1_1800SFT_mine_NBF0010Hz0W0008Hz0-1257800000-3600.sft``.

    Parameters
    ----------
    detector : str
        Two-character prefix.
    n_sfts : int
        Number of SFTs in the file.
    tsft : float
        Length of an SFT in s; it is rounded in the name.
    start, span : int
        Start in GPS seconds and length in s of the time that the file covers; see `span_seconds`.
    description : str
        Optional field for the user, ASCII letters and digits; or from `public_description`.
    band : (int, int), optional
        First bin and number of bins, for a narrow-band file. LALSuite names the band only of files that start at 1 Hz
        or above, and so does this function.

    Returns
    -------
    str
        The name, without directory.

    Raises
    ------
    ValueError
        If a name cannot express this: `start` is not positive, `tsft` is less than 1 s, or `description` has other
        characters or is one capital letter, which is reserved.
    """
    if start <= 0:
        raise ValueError(f"SFT files cannot be named for a start at GPS {start}: use a start after GPS 0.")
    if tsft < 1:
        raise ValueError(f"SFT files cannot be named for tsft = {tsft:g} s: use SFTs of at least 1 s.")
    private = PRIVATE.fullmatch(description) and not re.fullmatch("[A-Z]", description)
    if not private and not PUBLIC.fullmatch(description):
        raise ValueError(
            f"description {shown(description)} cannot stand in a file name: use at most 100 ASCII letters and digits, "
            "and no single capital letter."
        )
    timebase = _round_half_up(tsft)
    fields = [f"{detector[0]}-{n_sfts}", detector, f"{timebase}SFT"]
    if description:
        fields.append(description)
    if band is not None and band[0] >= timebase:
        (first, first_rest), (width, width_rest) = divmod(band[0], timebase), divmod(band[1], timebase)
        fields.append(f"NBF{first:04d}Hz{first_rest}W{width:04d}Hz{width_rest}")
    return f"{'_'.join(fields)}-{start:09d}-{span}.sft"


@public(kind=kinds.one_of(*KINDS), channel=kinds.text, window=kinds.text)
def public_description(run: int, kind: str, revision: int, channel: str, window: str) -> str:
    """Compose the description of SFT files' public names, such as ``O4RUN+R1+CGDSCALIBSTRAIN+WTKEY5``.

    Parameters
    ----------
    run : int
        Observing run.
    kind : str
        ``"RUN"``, ``"AUX"``, ``"SIM"`` or ``"DEV"``.
    revision : int
        Revision of the SFTs' production.
    channel : str
        Channel of the strain; its detector and all characters but letters and digits are left out.
    window : str
        ``"rectangular"``, ``"hann"`` or ``"tukey:<beta>"``.

    Returns
    -------
    str
        As `write_sfts` takes it.

    Raises
    ------
    ValueError
        If a number is not positive, or the kind or the window is unknown.
    """
    if not (is_whole(run) and run > 0 and is_whole(revision) and revision > 0):
        raise ValueError(f"run and revision must be whole numbers from 1 on, not {run!r} and {revision!r}.")
    words = {"rectangular": "RECT", "hann": "HANN"}
    word = words.get(window) or f"TKEY{round(TUKEY_STEPS * tukey_beta(window))}"
    name = "".join(re.findall("[A-Za-z0-9]", channel.partition(":")[2] or channel, re.ASCII))
    return f"O{run}{kind}+R{revision}+C{name}+W{word}"


def span_seconds(first: tuple[int, int], last: tuple[int, int], tsft: float) -> int:
    """Return the whole seconds covered by SFTs, as file names state it.

    Parameters
    ----------
    first, last : (int, int)
        GPS seconds and nanoseconds at which the first and the last SFT start; the same pair for a single SFT.
    tsft : float
        Length of an SFT in s.

    Returns
    -------
    int
        Counted as in ``SFTfileIO.c:XLALWriteSFTVector2StandardFile``: one more for each of the two starts that is not a
        whole second.
    """
    span = last[0] - first[0] + _round_half_up(tsft)
    return span + sum(nanoseconds > 0 for _, nanoseconds in {first, last})


def _round_half_up(tsft: float) -> int:
    return int(tsft + 0.5)
