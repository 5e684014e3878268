// Kernel between the two others for long transforms: over the first digit of the columns' numbers, in place.
//
// A column's number is m LAST + n. For each k1 and n the transform over m is taken, times exp(-2 pi i n k / N2), with
// N2 = A1 A2 LAST the number of columns; k takes the place of m.
//
// Constants: N1 (rows of the matrix), A1 and A2 (radices), LAST, COLUMNS, TURNS (values of k1 of
// a block, one after the other), EXCHANGE (bytes of an exchange) and BLOCKS.
#include "exchange.cuh"

constexpr int LENGTH = A1 * A2, E = A1, T = LENGTH / E, THREADS = T * COLUMNS, N2 = LENGTH * LAST;
static_assert(E % A2 == 0 && LAST % COLUMNS == 0 && N1 % TURNS == 0, "sizes");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) middle(const complex *series, complex *data) {
  constexpr size_t STEP = (size_t)LAST * N1;
  const unsigned table = shared_start(), exchange = table + A2 * COLUMNS * 8;
  const int column = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS, tile = blockIdx.y, n = tile * COLUMNS + column;
  for (int k = threadIdx.x; k < A2 * COLUMNS; k += THREADS)
    store_shared(table + k * 8, root((unsigned)A1 * (k / COLUMNS) * (tile * COLUMNS + k % COLUMNS) % N2, N2));
  const complex first = root((unsigned)t * LAST + n, N2);
  __syncthreads();
  const unsigned row = blockIdx.x * TURNS;  // of all templates' four series
  const size_t place = (size_t)(row / N1) * N1 * N2 + ((size_t)tile * N1 + row % N1) * COLUMNS + column + t * STEP;
  const complex *from = series + place;
  complex *to = data + place;
  complex next[E];
  auto load = [&]() {
#pragma unroll
    for (int i = 0; i < E; ++i) next[i] = from[A2 * i * STEP];
    from += COLUMNS;
  };
  load();
#pragma unroll 1
  for (int turn = 0; turn < TURNS; ++turn) {
    complex v[E];
#pragma unroll
    for (int i = 0; i < E; ++i) v[i] = next[i];
    if (turn + 1 < TURNS) load();
    Powers powers = Powers::of(first, false, first);
    // two exchanges in turns, so that one meeting of the threads is enough
    transform<A1, A2, 1, E, T, COLUMNS>(
        v, t, column, exchange + (turn & 1) * EXCHANGE, 0, false,
        [&](int, int q) { return powers.at(q); },
        [&](complex x, int q, int) { return x * load_shared(table + (q * COLUMNS + column) * 8); });
#pragma unroll
    for (int j = 0; j < E / A2; ++j)
#pragma unroll
      for (int q = 0; q < A2; ++q) to[(T * j + A1 * q) * STEP] = v[j * A2 + q];
    to += COLUMNS;
  }
}
