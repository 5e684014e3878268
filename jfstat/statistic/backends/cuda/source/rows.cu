// Last kernel: transforms over rows, 2F, and what a search needs of it.
//
// Row r = k1 + N1 k (of n_rows, k as `middle` leaves it) of a template and parity holds the bins r + n_rows i, i < R1 R2
// R3. `reduced` writes the largest 2F of each row, a histogram and the largest of each section; `values` writes all 2F
// of some rows, by the same arithmetic.
//
// Constants: N1 (rows of the columns' matrix), R1, R2, R3 (radices), GROUPS (rows of a block), EXCHANGE (bytes of a row's
// first exchange), GROUP_BYTES (of both), COLUMNS, BINS (of the histogram, of width WIDTH), COPIES (of the tallies, so
// that blocks do not wait for each other) and BLOCKS.
#include "exchange.cuh"

constexpr int LENGTH = R1 * R2 * R3, E = R1, T = LENGTH / E, THREADS = T * GROUPS, M = R2 * R3, LAST = R3 > 1 ? R3 : R2;
static_assert(T % R3 == 0 && THREADS >= 32, "a thread's last digit, and whole warps");
constexpr bool WHOLE = T % COLUMNS == 0 && M % COLUMNS == 0;  // a thread's numbers lie at constant distances

struct Given {  // kernels.row_numbers
  int n_rows, n_total;
};

// Place i in its row of a thread's e-th value, less t
DEVICE constexpr int place_of(int e) { return T * (e / LAST) + LENGTH / LAST * (e % LAST); }

// 2F of one row and parity, value[e] of entry row + n_rows (t + place_of(e))
DEVICE void two_f(const complex *series, const Given &given, const complex *__restrict__ twiddles, const complex *__restrict__ inner,
                  int row, int t, unsigned exchange, float offset, float (&value)[E]) {
  const int column = row % N1, between = row / N1;
  const complex *first = twiddles + t, *second = inner + t % R3;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const complex *from = series + (size_t)s * given.n_total + (size_t)between * LENGTH * N1 + column * COLUMNS;
    if constexpr (WHOLE) from += t / COLUMNS * (N1 * COLUMNS) + t % COLUMNS;
    complex v[E];
#pragma unroll
    for (int j = 0; j < E / R1; ++j)
#pragma unroll
      for (int i = 0; i < R1; ++i) {
        const int n = (WHOLE ? 0 : t) + T * j + M * i;
        v[j * R1 + i] = from[n / COLUMNS * (N1 * COLUMNS) + n % COLUMNS];
      }
    // with three radices the exchanges alternate by themselves
    const unsigned one = exchange + (R3 == 1 && s ? EXCHANGE : 0), two = exchange + EXCHANGE;
    transform<R1, R2, R3, E, T, 1>(
        v, t, 0, one, two, false, [&](int j, int q) { return __ldg(first + (j * R1 + q) * T); },
        [&](complex x, int q, int) { return R3 == 1 ? x : x * __ldg(second + q * R3); });
#pragma unroll
    for (int e = 0; e < E; ++e) value[e] = s ? value[e] + norm(v[e]) : offset + norm(v[e]);
  }
}

// Whether an entry counts: those of a range do (z = 0), or all others (z = 1); kernels.ranges.
DEVICE bool counts(int entry, int4 range) { return ((unsigned)(entry - range.x) < (unsigned)range.y) != (range.z != 0); }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
reduced(const complex *series, const complex *__restrict__ twiddles, const complex *__restrict__ inner, const int4 *__restrict__ ranges,
        const float *__restrict__ offsets, const int *__restrict__ numbers, const int *, const int *, float *__restrict__ largest,
        int *__restrict__ histogram, int *sections) {
  __shared__ int best[2 * GROUPS], counters[BINS][33], level;
  const Given given = {numbers[0], numbers[1]};
  const int t = threadIdx.x % T, group = threadIdx.x / T, row = blockIdx.x * GROUPS + group, own = blockIdx.y;
  const int copy = (blockIdx.x + blockIdx.y * gridDim.x) % COPIES;
  int *tops = sections + copy * E;
  for (int i = threadIdx.x; i < BINS * 33; i += THREADS) (&counters[0][0])[i] = 0;
  if (threadIdx.x < 2 * GROUPS) best[threadIdx.x] = __float_as_int(-1.0f);
  if (threadIdx.x == 0) {  // few values exceed what all sections have reached: the others are not looked at
    int least = 0x7f800000;  // infinity, which sections hold that no bin can be in
    for (int i = 0; i < E; ++i) least = min(least, *(volatile int *)(tops + i));
    level = least;
  }
  const unsigned exchange = shared_start() + group * GROUP_BYTES;
  const int first = row + given.n_rows * t;
  unsigned low = 0, high = 0;
  static_assert(2 * E < 256, "bytes");
  __syncthreads();
#pragma unroll 1
  for (int odd = 0; odd < 2; ++odd) {
    float value[E];
    const int4 range = ranges[own * 2 + odd];
    two_f(series + (size_t)(own * 4 + odd * 2) * given.n_total, given, twiddles, inner, row, t, exchange, offsets[own], value);
    float top = -1;
#pragma unroll
    for (int e = 0; e < E; ++e) {
      const bool counted = counts(first + given.n_rows * place_of(e), range);
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
      for (int e = 0; e < E; ++e)
        if (value[e] >= (float)(8 * WIDTH))
          atomicAdd(&counters[(int)fminf(value[e] * (float)(1 / WIDTH), BINS - 1.0f)][threadIdx.x & 31], 1);
    if constexpr (T % 32 == 0) {
      const int of_warp = __reduce_max_sync(~0u, __float_as_int(top));
      if (threadIdx.x % 32 == 0) atomicMax(best + odd * GROUPS + group, of_warp);
    } else atomicMax(best + odd * GROUPS + group, __float_as_int(top));
    if (top > __int_as_float(level))
#pragma unroll
      for (int e = 0; e < E; ++e)  // each of a thread's numbers lies in a section of its own
        if (value[e] > __int_as_float(level)) atomicMax(tops + place_of(e) / T, __float_as_int(value[e]));
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

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
values(const complex *series, const complex *__restrict__ twiddles, const complex *__restrict__ inner, const int4 *__restrict__ ranges,
       const float *__restrict__ offsets, const int *__restrict__ numbers, const int *__restrict__ chosen, float *__restrict__ out) {
  const Given given = {numbers[0], numbers[1]};
  const int n_chosen = numbers[2], t = threadIdx.x % T, group = threadIdx.x / T, place = blockIdx.x * GROUPS + group;
  const int number = chosen[min(place, n_chosen - 1)], row = number % given.n_rows, odd = number / given.n_rows % 2, own = number / given.n_rows / 2;
  float value[E];
  two_f(series + (size_t)(own * 4 + odd * 2) * given.n_total, given, twiddles, inner, row, t,
        shared_start() + group * GROUP_BYTES, offsets[own], value);
  if (place >= n_chosen) return;
  const int4 range = ranges[own * 2 + odd];
#pragma unroll
  for (int e = 0; e < E; ++e) {
    const int i = t + place_of(e);
    out[(size_t)place * LENGTH + i] = counts(row + given.n_rows * i, range) && value[e] >= 0 ? value[e] : -1.0f;
  }
}
