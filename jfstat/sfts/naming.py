"""Official names of SFT files (LIGO-T040164; ``SFTnaming.c:XLALBuildSFTFilenameFromSpec``)."""

from __future__ import annotations

import re

from jfstat.validation import shown


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
    """Name of a private SFT file, such as ``H-2_H1_1800SFT_mine_NBF0010Hz0W0008Hz0-1257800000-3600.sft``.

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
        Optional field for the user, ASCII letters and digits.
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
    if not re.fullmatch("[A-Za-z0-9]{0,100}", description, re.ASCII) or re.fullmatch("[A-Z]", description):
        raise ValueError(
            f"description {shown(description)} cannot stand in a file name: use at most 100 ASCII letters and digits, "
            "and more than one capital letter."
        )
    timebase = _round_half_up(tsft)
    fields = [f"{detector[0]}-{n_sfts}", detector, f"{timebase}SFT"]
    if description:
        fields.append(description)
    if band is not None and band[0] >= timebase:
        (first, first_rest), (width, width_rest) = divmod(band[0], timebase), divmod(band[1], timebase)
        fields.append(f"NBF{first:04d}Hz{first_rest}W{width:04d}Hz{width_rest}")
    return f"{'_'.join(fields)}-{start:09d}-{span}.sft"


def span_seconds(first: tuple[int, int], last: tuple[int, int], tsft: float) -> int:
    """Whole seconds covered by SFTs, as file names state it.

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
