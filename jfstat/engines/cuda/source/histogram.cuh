// Bins of means over segments in their histogram: see `sums.places` in Python, from which values at the edges may differ.
//
// Constants: BINS and WIDTH.
#pragma once
#include "constants.cuh"

static_assert(BINS <= 32, "numbers of bins have 5 bits");

// Takes sums over segments to numbers of bins, of which the first is 0 and the last 1. `given` has the reciprocal of the
// number of segments, and its root.
struct Histogram {
  float scale, lowest;

  __device__ explicit Histogram(const float *given)
      : scale(given[0] * given[1] / (float)(WIDTH * (BINS - 1))), lowest(((4 - 4 * given[1]) / (float)WIDTH - 0.5f) / (BINS - 1)) {}

  // A number with 2^23 added is rounded to a whole one, which its last bits are.
  __device__ unsigned bin(float sum) const {
    return __float_as_uint(__fmaf_rn(__saturatef(__fmaf_rn(sum, scale, lowest)), BINS - 1, 8388608.0f)) & 31;
  }
};
