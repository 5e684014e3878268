"""SFTs from strain: from arrays, GWOSC files and frame files, with data-quality bits, high-pass filter and gating."""
