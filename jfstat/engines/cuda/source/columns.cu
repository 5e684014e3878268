// First kernel: the weighted series of a batch of templates, made as they are read, and transforms over their columns.
//
// A series of N = N1 n_columns samples is a matrix of N1 rows. A block makes COLUMNS of its columns for one template,
// for Fa and Fb, and writes four transforms over them (even and odd bins) times exp(-2 pi i k1 column / N), as
// [template][even a, even b, odd a, odd b][column / COLUMNS][k1][column % COLUMNS].
//
// Constants: those of sample.cuh, A1 and A2 (radices, N1 = A1 A2), T (threads of a column), BEYOND (rows after the N1-th,
// whose samples are added to those N earlier, with a minus sign for odd bins) and BLOCKS (at least on a multiprocessor).
#include "sample.cuh"

constexpr int N1 = A1 * A2, E = A1 > A2 ? A1 : A2, THREADS = T * COLUMNS, M = A2, TURNED = (BEYOND + M - 1) / M, ROWS = N1 + BEYOND, SOURCES = SHARED ? 1 : DETECTORS;
using Inputs = Stage<A1, N1, T>;
using Outputs = Stage<A2, N1, T>;
static_assert(Inputs::EACH_THREAD == 1 && Outputs::EACH_THREAD * A2 <= E, "element i of a thread, of A1, holds row t + M i");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
columns(const float4 *__restrict__ filters, const float4 *__restrict__ timing, const int *__restrict__ given, complex *__restrict__ out) {
  const Numbers numbers = {given[0], given[1], given[2], given[3]};
  const unsigned n_columns = numbers.n_columns, n_total = N1 * n_columns;
  const int column = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS, tile = blockIdx.y + gridDim.y * blockIdx.z, place = tile * COLUMNS + column;
  // templates fastest in the grid: those that run together read the same part of the filters
  const size_t own = blockIdx.x;
  timing += own * SOURCES * numbers.n_blocks * TIMING;
  Filters bank;
  bank.stride = PLANES * numbers.length;

  // the exchange follows when all rows have been used, in the same memory
  const unsigned table = shared_start(), rows = table + A2 * COLUMNS * 8, exchange = rows;
  for (int k = threadIdx.x; k < A2 * COLUMNS; k += THREADS)
    store_shared(table + k * 8, root((unsigned)A1 * (k / COLUMNS) * (tile * COLUMNS + k % COLUMNS) % n_total, n_total));
  for (int k = threadIdx.x; !EACH && k < SOURCES * ROWS; k += THREADS)
    make_row(rows + ROW * k, timing, numbers, k / ROWS, (k % ROWS) * n_columns + tile * COLUMNS);
  __syncthreads();

  auto sample = [&](int row, complex &a, complex &b) {
    const int n = row * n_columns + place;
    const float d = column - COLUMNS / 2;
#pragma unroll
    for (int detector = 0; detector < SOURCES; ++detector) {
      bank.at = filters + (size_t)detector * QUADS * bank.stride;
      if constexpr (EACH) sample_alone(bank, timing, numbers, detector, n, a, b);
      else sample_of_row(bank, rows + ROW * (row + detector * ROWS), column, d, n, a, b);
    }
  };
  complex a[A1], b[A1], beyond_a[TURNED ? TURNED : 1], beyond_b[TURNED ? TURNED : 1];
#pragma unroll
  for (int i = 0; i < A1; ++i) {
    a[i] = b[i] = make_float2(0, 0);
    if (Inputs::has(t, 0)) sample(t + M * i, a[i], b[i]);
  }
#pragma unroll
  for (int i = 0; i < TURNED; ++i) {
    beyond_a[i] = beyond_b[i] = make_float2(0, 0);
    if (Inputs::has(t, 0) && t + M * i < BEYOND && (!SHARED || (N1 + t + M * i) * n_columns + place < (unsigned)numbers.n_blocks * numbers.block))
      sample(N1 + t + M * i, beyond_a[i], beyond_b[i]);
  }

  const complex first = root((unsigned)t * n_columns + place, n_total);
  complex odd;
  sincospif((float)(t * n_columns + place) * (-1.0f / (float)n_total), &odd.y, &odd.x);
  const unsigned long long leave = policy_leave();
  complex *to = out + own * 4 * n_total + (size_t)tile * N1 * COLUMNS + t * COLUMNS + column;
#pragma unroll
  for (int series = 0; series < 4; ++series) {
    __syncthreads();
    complex v[E];
    for_each<0, A1>([&](auto index) {
      constexpr int i = decltype(index)::value;
      complex x = series % 2 ? b[i] : a[i];
      if constexpr (i < TURNED) {
        const complex y = series % 2 ? beyond_b[i] : beyond_a[i];
        x = series < 2 ? x + y : x - y;
      }
      v[i] = series < 2 ? x : turned<i, 2 * A1>(x);
    });
    // for odd bins all of a thread's numbers share a part of the half-bin shift
    Powers powers = Powers::of(first, series >= 2, odd);
    transform<A1, A2, 1, E, T, COLUMNS>(
        v, t, column, exchange, 0, series >= 2, [&](int, int q) { return powers.at(q); },
        [&](complex x, int q, int) { return x * load_shared(table + (q * COLUMNS + column) * 8); });
#pragma unroll
    for (int j = 0; j < Outputs::EACH_THREAD; ++j)
#pragma unroll
      for (int q = 0; Outputs::has(t, j) && q < A2; ++q) store_leaving(to + (T * j + A1 * q) * COLUMNS, v[j * A2 + q], leave);
    to += n_total;
    asm volatile("" : "+l"(to));  // or the compiler keeps four pointers, and spills
  }
}
