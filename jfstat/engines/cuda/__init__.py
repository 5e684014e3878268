"""Compute 2F by two or three kernels in CUDA C++ on NVIDIA GPUs: the `cuda` engine.

The first kernel makes a template's weighted series as it reads the interpolation filters, and transforms columns of
it; the last transforms rows, and reduces 2F to what a search keeps. Between two kernels the four series (Fa and Fb,
even and odd bins) cross the device's memory once. The sources, in `source`, are compiled for the device and the lengths
at hand when they are first needed. Another kernel, in `sums`, adds up segments' values in interpolating searches.
"""
