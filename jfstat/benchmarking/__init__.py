"""Time 2F per frequency bin, template and detector, in each stage, on this machine."""
