"""Read and write tables of candidates and templates; `lal` holds the text formats of LALSuite's programs."""
