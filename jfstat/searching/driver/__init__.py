"""How a search is cut up and computed: parts of the band, batches of templates, devices."""
