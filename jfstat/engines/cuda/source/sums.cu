// Means over segments for an interpolating search, see `interpolated.Interpolated`.
//
// A block takes a group of TEMPLATES templates and RUN consecutive bins, and adds up one segment after the other: a thread
// has V bins of all templates in registers, and the segments' values come from the caches, since the templates of a group
// read the same rows, or nearly so. It writes the largest mean of the group at each bin, and counts all of them.
//
// TOGETHER neighbouring segments are added first, as in `staged.cu`, which is for templates that share these sums.
//
// Constants: THREADS, V (bins of a thread), TEMPLATES, SEGMENTS (whose offsets are kept at a time, a multiple of
// TOGETHER), TOGETHER, BINS (of the histogram), WIDTH (of a bin), COPIES (of the histogram, so that blocks do not wait
// for each other) and BLOCKS.
#include "histogram.cuh"

constexpr int RUN = THREADS * V, WORDS = (BINS + 3) / 4;
static_assert(TEMPLATES * V < 256, "a thread's counters are bytes");
static_assert(THREADS % 32 == 0, "whole warps");
static_assert(SEGMENTS % TOGETHER == 0, "segments that are added first have their offsets in shared memory");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
sums(const float *__restrict__ values, const long long *__restrict__ offsets, const int2 *__restrict__ counted, const int *__restrict__ numbers,
     const float *__restrict__ scales, const int *, float *__restrict__ tops, int *__restrict__ histogram) {
  __shared__ long long places[SEGMENTS * TEMPLATES];
  __shared__ int2 ends[TEMPLATES];
  __shared__ unsigned counters[WORDS][THREADS];
  const int n_segments = numbers[0], length = numbers[1], n_groups = numbers[2], t = threadIdx.x;
  // groups fastest: blocks that run together read the same part of the band
  const int group = blockIdx.x % n_groups, tile = blockIdx.x / n_groups, runs = length / RUN, piece = tile / runs, start = tile % runs * RUN;
  const float inverse = scales[0];
  const Histogram bins(scales);
  if (t < TEMPLATES) ends[t] = counted[group * TEMPLATES + t];
#pragma unroll
  for (int i = 0; i < WORDS; ++i) counters[i][t] = 0;

  const long long *given = offsets + ((size_t)piece * n_groups + group) * n_segments * TEMPLATES;
  const float *own = values + start + t;
  float total[TEMPLATES][V];
#pragma unroll
  for (int j = 0; j < TEMPLATES; ++j)
#pragma unroll
    for (int v = 0; v < V; ++v) total[j][v] = 0;
  for (int first = 0; first < n_segments; first += SEGMENTS) {
    const int n = min(SEGMENTS, n_segments - first);
    __syncthreads();
    for (int i = t; i < n * TEMPLATES; i += THREADS) places[i] = given[first * TEMPLATES + i];
    __syncthreads();
#pragma unroll 1
    for (int segment = 0; segment < n; segment += TOGETHER)
#pragma unroll
      for (int j = 0; j < TEMPLATES; ++j) {
        const float *from = own + places[segment * TEMPLATES + j];
        float sum[V];
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] = __ldg(from + v * THREADS);
#pragma unroll
        for (int i = 1; i < TOGETHER; ++i)
          if (segment + i < n) {
            from = own + places[(segment + i) * TEMPLATES + j];
#pragma unroll
            for (int v = 0; v < V; ++v) sum[v] += __ldg(from + v * THREADS);
          }
#pragma unroll
        for (int v = 0; v < V; ++v) total[j][v] += sum[v];
      }
  }

  const float none = -__int_as_float(0x7f800000);
  const int number = piece * length + start + t;
  float top[V];
#pragma unroll
  for (int v = 0; v < V; ++v) top[v] = none;
#pragma unroll
  for (int j = 0; j < TEMPLATES; ++j) {
    const int2 range = ends[j];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float mean = total[j][v] * inverse;
      const int bin = number + v * THREADS;
      if (bin >= range.x && bin <= range.y && mean > none) {
        top[v] = fmaxf(top[v], mean);
        const unsigned place = bins.bin(total[j][v]);
        // an atomic addition, though no other thread counts here: the next need not wait for it
        atomicAdd(&counters[place / 4][t], 1u << (place % 4 * 8));
      }
    }
  }
  float *to = tops + ((size_t)piece * n_groups + group) * length + start + t;
#pragma unroll
  for (int v = 0; v < V; ++v) to[v * THREADS] = top[v];

  __syncthreads();
  int *copy = histogram + (group + tile) % COPIES * BINS;
  for (int place = t / 32; place < BINS; place += THREADS / 32) {
    unsigned sum = 0;
    for (int other = t % 32; other < THREADS; other += 32) sum += counters[place / 4][other] >> (place % 4 * 8) & 255;
    sum = __reduce_add_sync(0xffffffff, sum);
    if (t % 32 == 0 && sum) atomicAdd(copy + place, (int)sum);
  }
}
