"""Lists of known instrumental lines: the template frequencies that they affect, and cleaning of SFTs."""
