// Sums of a few neighbouring segments for an interpolating search, see `shared.shared_sums`.
//
// Constants: THREADS, V (bins of a thread), TOGETHER (segments of a sum) and ROWS (sums that are made at a time).
#include "constants.cuh"

constexpr int RUN = THREADS * V;

// For each piece of the band the first counts[piece] of `room` sums of `width` bins. A block makes every ROWS-th sum at RUN
// bins. A segment that starts at -1 is left out. Bins that would lie beyond the ends of all values are read by no template.
extern "C" __global__ void __launch_bounds__(THREADS)
shared_sums(const float *__restrict__ values, const long long *__restrict__ starts, const int *__restrict__ counts, const long long *__restrict__ numbers,
            float *__restrict__ result) {
  const long long width = numbers[0], last = numbers[1] - 1, room = numbers[2];
  const int runs = (int)((width + RUN - 1) / RUN), tile = blockIdx.x / ROWS, piece = tile / runs, first = tile % runs * RUN + threadIdx.x;
  const int count = counts[piece];
  for (int row = blockIdx.x % ROWS; row < count; row += ROWS) {
    const size_t place = piece * room + row;
    long long from[TOGETHER];
#pragma unroll
    for (int i = 0; i < TOGETHER; ++i) from[i] = starts[place * TOGETHER + i];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int bin = first + v * THREADS;
      if (bin >= width) break;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i) {
        if (i > 0 && from[i] < 0) continue;
        const long long at = from[i] + bin;
        const float value = __ldg(values + (at < 0 ? 0 : at > last ? last : at));
        sum = i == 0 ? value : sum + value;
      }
      result[place * width + bin] = sum;
    }
  }
}
