"""Lists of known instrumental lines: which frequencies of a template they affect, and cleaning SFTs."""
