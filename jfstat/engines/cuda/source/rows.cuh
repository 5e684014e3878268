// Transforms over rows, and 2F: what `reduced.cu` and `values.cu` have in common, by the same arithmetic.
//
// Row r = k1 + N1 k (of n_rows, k as `middle` leaves it) of a template and parity holds the bins r + n_rows i, i < LENGTH.
//
// A row of two PARTS is transformed as two of half its length, of the sums and, for its odd entries, the differences of
// its halves. The differences wait in shared memory, so that a thread holds half as many numbers.
//
// Constants: N1 (rows of the columns' matrix), PARTS, R1, R2, R3 (radices of a part), T (threads of a row), GROUPS (rows
// of a block), EXCHANGE (bytes from a row's first exchange to its second; 0 if they are the same), STASH (bytes from
// its first exchange to its differences), GROUP_BYTES (of all of them), COLUMNS and BLOCKS.
#pragma once
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

struct Given {  // kernels._row_numbers
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

// Whether an entry counts: those of a range do (z = 0), or all others (z = 1); kernels._ranges.
DEVICE bool counts(int entry, int4 range) { return ((unsigned)(entry - range.x) < (unsigned)range.y) != (range.z != 0); }
