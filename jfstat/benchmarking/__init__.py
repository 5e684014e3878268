"""Measuring how long 2F takes per frequency bin, template and detector, in each stage, compared with LALSuite."""
