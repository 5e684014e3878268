"""Read and write the text formats of LALSuite's programs: a module for each kind of file."""
