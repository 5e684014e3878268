"""Reading and writing tables of candidates; `lal` has the text formats of LALSuite's programs."""
