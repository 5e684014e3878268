// Kernel between the two others for long transforms: over the first digit of the columns' numbers, in place.
//
// A column's number is m LAST + n. For each k1 and n the transform over m is taken, times exp(-2 pi i n k / N2), with
// N2 = A1 A2 LAST the number of columns; k takes the place of m. A block does this for one k1 and COLUMNS values of n.
//
// Constants: N1 (rows of the matrix), A1 and A2 (radices), T (threads of a column), LAST, COLUMNS and BLOCKS.
#include "exchange.cuh"

constexpr int LENGTH = A1 * A2, E = A1 > A2 ? A1 : A2, THREADS = T * COLUMNS, N2 = LENGTH * LAST;
using Inputs = Stage<A1, LENGTH, T>;
using Outputs = Stage<A2, LENGTH, T>;
static_assert(Inputs::EACH_THREAD == 1 && Outputs::EACH_THREAD * A2 <= E && LAST % COLUMNS == 0, "sizes");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) middle(const complex *series, complex *data) {
  constexpr size_t STEP = (size_t)LAST * N1;
  const unsigned table = shared_start(), exchange = table + A2 * COLUMNS * 8;
  const int column = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS, tile = blockIdx.y, n = tile * COLUMNS + column;
  const unsigned row = blockIdx.x;  // of all templates' four series
  const size_t place = (size_t)(row / N1) * N1 * N2 + ((size_t)tile * N1 + row % N1) * COLUMNS + column + t * STEP;
  complex v[E];
#pragma unroll
  for (int i = 0; i < A1; ++i)
    if (Inputs::has(t, 0)) v[i] = series[place + A2 * i * STEP];
  for (int k = threadIdx.x; k < A2 * COLUMNS; k += THREADS)
    store_shared(table + k * 8, root((unsigned)A1 * (k / COLUMNS) * (tile * COLUMNS + k % COLUMNS) % N2, N2));
  const complex first = root((unsigned)t * LAST + n, N2);
  Powers powers = Powers::of(first, false, first);
  // the table is whole once the threads meet in the exchange
  transform<A1, A2, 1, E, T, COLUMNS>(
      v, t, column, exchange, 0, false, [&](int, int q) { return powers.at(q); },
      [&](complex x, int q, int) { return x * load_shared(table + (q * COLUMNS + column) * 8); });
  complex *to = data + place;
#pragma unroll
  for (int j = 0; j < Outputs::EACH_THREAD; ++j)
#pragma unroll
    for (int q = 0; Outputs::has(t, j) && q < A2; ++q) to[(T * j + A1 * q) * STEP] = v[j * A2 + q];
}
