// All 2F of some rows, by the arithmetic of `reduced.cu`. Constants are those of `rows.cuh`.
#include "rows.cuh"

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
