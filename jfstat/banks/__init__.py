"""Banks of templates: products of ranges of parameters, and lattices laid by the metric.

Terms, after Prix (2007), Wette & Prix (2013) and Wette (2014):

- a region is the part of the sky to be searched; the parameter space adds ranges of spin-down and the metric;
- a patch is a part of a region with one flat map, on which the metric is taken to be constant;
- a lattice is A_n*, scaled so that balls around its points cover the space, their squared radius being the mismatch;
- a tiling is the part of a lattice whose balls touch a patch and the ranges of spin-down; its points are templates;
- spin-downs are either tiled, if the lattice extends over them, or fixed at the middle of their ranges.
"""
