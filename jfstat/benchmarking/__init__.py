"""From settings to times: what 2F takes per frequency bin, template and detector, by stage, beside LALSuite."""
