"""SFTs from strain: from arrays, files of GWOSC and frame files, with data-quality bits, high-pass and gating."""
