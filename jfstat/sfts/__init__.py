"""SFT files: from disk to `SFTs` and back, in the format of LIGO-T040164."""

from jfstat.sfts.container import SFTs, SFTSeries
from jfstat.sfts.reading import read_sfts
from jfstat.sfts.writing import write_sfts

__all__ = ["SFTSeries", "SFTs", "read_sfts", "write_sfts"]
