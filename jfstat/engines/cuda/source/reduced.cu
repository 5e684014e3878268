// Last kernel: transforms over rows as in `rows.cuh`, and what a search needs of 2F: the largest of each row, a histogram
// and the largest of each section.
//
// Constants: those of `rows.cuh`, BINS (of the histogram, of width WIDTH) and COPIES (of the tallies, so that blocks do
// not wait for each other).
#include "rows.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
reduced(const complex *series, const complex *__restrict__ twiddles, const complex *__restrict__ inner, const int4 *__restrict__ ranges,
        const float *__restrict__ offsets, const int *__restrict__ numbers, const int *, const int *, float *__restrict__ largest,
        int *__restrict__ histogram, int *sections) {
  __shared__ int best[2 * GROUPS], counters[BINS][33], level;
  const Given given = {numbers[0], numbers[1]};
  const int t = threadIdx.x % T, group = threadIdx.x / T, row = blockIdx.x * GROUPS + group, own = blockIdx.y;
  const int copy = (blockIdx.x + blockIdx.y * gridDim.x) % COPIES;
  int *tops = sections + copy * VALUES;
  for (int i = threadIdx.x; i < BINS * 33; i += THREADS) (&counters[0][0])[i] = 0;
  if (threadIdx.x < 2 * GROUPS) best[threadIdx.x] = __float_as_int(-1.0f);
  if (threadIdx.x == 0) {  // few values exceed what all sections have reached: the others are not looked at
    int least = 0x7f800000;  // infinity, which sections hold that no bin can be in
    for (int i = 0; i < VALUES; ++i) least = min(least, *(volatile int *)(tops + i));
    level = least;
  }
  const unsigned exchange = shared_start() + group * GROUP_BYTES;
  unsigned low = 0, high = 0;
  static_assert(2 * PARTS * VALUES < 256, "bytes");
  __syncthreads();
#pragma unroll 1
  for (int turn = 0; turn < 2 * PARTS; ++turn) {
    const int odd = turn / PARTS, part = turn % PARTS, first = row + given.n_rows * (PARTS * t + part);
    float value[VALUES];
    const int4 range = ranges[own * 2 + odd];
    two_f(series + (size_t)(own * 4 + odd * 2) * given.n_total, given, twiddles, inner, row, part, t, exchange, offsets[own], value);
    float top = -1;
#pragma unroll
    for (int e = 0; e < VALUES; ++e) {
      const bool counted = has_values(t) && counts(first + given.n_rows * place_of(e), range);
      // nearly all values lie in the first bins, which a thread counts by itself, four in a word; the number of the bin
      // is in the lowest bits of a float of 2^23 and more
      const unsigned bin = __float_as_uint(__fmaf_rz(value[e], (float)(1 / WIDTH), 8388608.0f));
      const unsigned one = counted ? 1u << ((bin * 8) & 31) : 0;
      low += value[e] < (float)(4 * WIDTH) ? one : 0;
      high += value[e] >= (float)(4 * WIDTH) && value[e] < (float)(8 * WIDTH) ? one : 0;
      value[e] = counted ? value[e] : -1.0f;
      top = fmaxf(top, value[e]);
    }
    if (top >= (float)(8 * WIDTH))
#pragma unroll
      for (int e = 0; e < VALUES; ++e)
        if (value[e] >= (float)(8 * WIDTH))
          atomicAdd(&counters[(int)fminf(value[e] * (float)(1 / WIDTH), BINS - 1.0f)][threadIdx.x & 31], 1);
    if constexpr (T % 32 == 0) {
      const int of_warp = __reduce_max_sync(~0u, __float_as_int(top));
      if (threadIdx.x % 32 == 0) atomicMax(best + odd * GROUPS + group, of_warp);
    } else atomicMax(best + odd * GROUPS + group, __float_as_int(top));
    if (top > __int_as_float(level))
#pragma unroll
      for (int e = 0; e < VALUES; ++e)  // each of a thread's numbers lies in a section of its own
        if (value[e] > __int_as_float(level)) atomicMax(tops + place_of(e) / (PARTS * SECTION), __float_as_int(value[e]));
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    atomicAdd(&counters[i][threadIdx.x & 31], (low >> 8 * i) & 255);
    atomicAdd(&counters[i + 4][threadIdx.x & 31], (high >> 8 * i) & 255);
  }
  __syncthreads();
  if (threadIdx.x < 2 * GROUPS) {
    const int odd = threadIdx.x / GROUPS, other = threadIdx.x % GROUPS;
    largest[((size_t)own * 2 + odd) * given.n_rows + blockIdx.x * GROUPS + other] = __int_as_float(best[threadIdx.x]);
  }
  if (threadIdx.x < THREADS / 32 * 32)  // whole warps
    for (int i = threadIdx.x / 32; i < BINS; i += THREADS / 32) {
      const int sum = __reduce_add_sync(~0u, counters[i][threadIdx.x & 31]);
      if (threadIdx.x % 32 == 0 && sum) atomicAdd(histogram + copy * BINS + i, sum);
    }
}
