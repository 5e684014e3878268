"""SFTs in memory, and reading and writing them in the format of LIGO-T040164."""

from jfstat.sfts.container import SFTs, SFTSeries, join_sfts
from jfstat.sfts.reading import read_sfts
from jfstat.sfts.writing import write_sfts

__all__ = ["SFTSeries", "SFTs", "join_sfts", "read_sfts", "write_sfts"]
