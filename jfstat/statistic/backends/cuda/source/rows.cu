// Last kernel: transforms over rows, 2F, and what a search needs of it.
//
// Row r = k1 + N1 k (of n_rows, k as `middle` leaves it) of a template and parity holds the bins r + n_rows i, i < LENGTH.
// `reduced` writes the largest 2F of each row, a histogram and the largest of each section; `values` writes all 2F
// of some rows, by the same arithmetic.
//
// A row of two PARTS is transformed as two of half its length, of the sums and, for its odd entries, the differences of
// its halves. The differences wait in shared memory, so that a thread holds half as many numbers.
//
// Constants: N1 (rows of the columns' matrix), PARTS, R1, R2, R3 (radices of a part), T (threads of a row), GROUPS (rows
// of a block), EXCHANGE (bytes from a row's first exchange to its second; 0 if they are the same), STASH (bytes from
// its first exchange to its differences), GROUP_BYTES (of all of them), COLUMNS, BINS (of the histogram, of width
// WIDTH), COPIES (of the tallies, so that blocks do not wait for each other) and BLOCKS.
#include "exchange.cuh"

constexpr int CORE = R1 * R2 * R3, LENGTH = PARTS * CORE, E = R1 > R2 ? R1 : R2, THREADS = T * GROUPS, M = R2 * R3, LAST = R3 > 1 ? R3 : R2;
using Inputs = Stage<R1, CORE, T>;
using Outputs = Stage<LAST, CORE, T>;
constexpr int VALUES = LAST * Outputs::EACH_THREAD;  // 2F of a part that a thread computes
static_assert(Inputs::EACH_THREAD == 1 && R3 * Stage<R3, CORE, T>::EACH_THREAD <= E && R2 * Stage<R2, CORE, T>::EACH_THREAD <= E && VALUES <= E && THREADS >= 32, "sizes");
constexpr int SECTION = CORE / VALUES;  // distance of a thread's values, which lie in as many equal sections of a part
static_assert(Outputs::EACH_THREAD * SECTION == CORE / LAST && SECTION <= T, "each of a thread's values lies in a section of its own");
static_assert(Outputs::EACH_THREAD == 1 || SECTION == T, "threads without values have none at all");
constexpr bool WHOLE = T % COLUMNS == 0 && M % COLUMNS == 0 && CORE % COLUMNS == 0;  // a thread's numbers lie at constant distances

struct Given {  // kernels.row_numbers
  int n_rows, n_total;
};

// Place i in its row of a thread's e-th value of a part, less that of thread 0
DEVICE constexpr int place_of(int e) { return PARTS * (T * (e / LAST) + CORE / LAST * (e % LAST)); }
// Whether a thread has values: if the radices differ, some threads have none
DEVICE constexpr bool has_values(int t) { return SECTION == T || t < SECTION; }

// 2F of one part of a row of a parity: value[e] of entry row + n_rows (PARTS t + part + place_of(e))
DEVICE void two_f(const complex *series, const Given &given, const complex *__restrict__ twiddles, const complex *__restrict__ inner,
                  int row, int part, int t, unsigned exchange, float offset, float (&value)[VALUES]) {
  const int column = row % N1, between = row / N1;
  const complex *first = twiddles + part * CORE + t;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    complex v[E];
    const unsigned stash = exchange + STASH + (s * R1 * T + t) * 8;
    if (Inputs::has(t, 0)) {
      if (part == 0) {
        const complex *from = series + (size_t)s * given.n_total + (size_t)between * LENGTH * N1 + column * COLUMNS;
        if constexpr (WHOLE) from += t / COLUMNS * (N1 * COLUMNS) + t % COLUMNS;
        for_each<0, R1>([&](auto index) {
          constexpr int i = decltype(index)::value;
          const int n = (WHOLE ? 0 : t) + M * i, far = n + CORE;
          v[i] = from[n / COLUMNS * (N1 * COLUMNS) + n % COLUMNS];
          if constexpr (PARTS == 2) {
            const complex other = from[far / COLUMNS * (N1 * COLUMNS) + far % COLUMNS];
            store_shared(stash + i * T * 8, turned<i, PARTS * R1>(v[i] - other));
            v[i] = v[i] + other;
          }
        });
      } else {
#pragma unroll
        for (int i = 0; i < R1; ++i) v[i] = load_shared(stash + i * T * 8);
      }
    }
    // with three radices and two exchanges these alternate by themselves
    if (R3 > 1 && EXCHANGE == 0) __syncthreads();
    const unsigned one = exchange + (R3 == 1 && s ? EXCHANGE : 0), two = exchange + EXCHANGE;
    // the table for both parts would be too long for the cache of a multiprocessor
    Powers powers;
    if constexpr (PARTS == 2) powers = Powers::of(__ldg(twiddles + M + t), part == 1, __ldg(first));
    transform<R1, R2, R3, E, T, 1>(
        v, t, 0, one, two, PARTS == 2, [&](int, int q) { return PARTS == 1 ? __ldg(first + q * M) : q || part ? powers.at(q) : make_float2(1, 0); },
        [&](complex x, int q, int j) { return R3 == 1 ? x : x * __ldg(inner + (t + T * j) % R3 + q * R3); });
#pragma unroll
    for (int e = 0; e < VALUES; ++e) value[e] = s ? value[e] + norm(v[e]) : offset + norm(v[e]);
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

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
values(const complex *series, const complex *__restrict__ twiddles, const complex *__restrict__ inner, const int4 *__restrict__ ranges,
       const float *__restrict__ offsets, const int *__restrict__ numbers, const int *__restrict__ chosen, float *__restrict__ out) {
  const Given given = {numbers[0], numbers[1]};
  const int n_chosen = numbers[2], t = threadIdx.x % T, group = threadIdx.x / T, place = blockIdx.x * GROUPS + group;
  const int number = chosen[min(place, n_chosen - 1)], row = number % given.n_rows, odd = number / given.n_rows % 2, own = number / given.n_rows / 2;
  const int4 range = ranges[own * 2 + odd];
#pragma unroll 1
  for (int part = 0; part < PARTS; ++part) {
    float value[VALUES];
    two_f(series + (size_t)(own * 4 + odd * 2) * given.n_total, given, twiddles, inner, row, part, t,
          shared_start() + group * GROUP_BYTES, offsets[own], value);
    if (place < n_chosen && has_values(t))
#pragma unroll
      for (int e = 0; e < VALUES; ++e) {
        const int i = PARTS * t + part + place_of(e);
        out[(size_t)place * LENGTH + i] = counts(row + given.n_rows * i, range) && value[e] >= 0 ? value[e] : -1.0f;
      }
  }
}
