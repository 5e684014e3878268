"""What is kept of all values of 2F: the loudest, a histogram, the loudest of each sub-band."""
