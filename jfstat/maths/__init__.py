"""Mathematics without physics: nothing here knows about detectors, sources or files."""
