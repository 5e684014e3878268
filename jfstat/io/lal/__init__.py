"""Text formats of LALSuite's programs: a module for each kind of file."""
