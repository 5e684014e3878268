// The weighted series of one template, from which those of other spin-downs at its sky position follow: see SHARED.
#include "sample.cuh"

extern "C" __global__ void __launch_bounds__(256)
interpolate(const float4 *__restrict__ filters, const float4 *__restrict__ timing,
            const int *__restrict__ given, float4 *__restrict__ series) {
  const Numbers numbers = {given[0], given[1], given[2], given[3]};
  const int n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n >= numbers.n_blocks * numbers.block) return;
  Filters own;
  own.stride = PLANES * numbers.length;
  complex a = make_float2(0, 0), b = a;
  for (int detector = 0; detector < DETECTORS; ++detector) {
    own.at = filters + (size_t)detector * QUADS * own.stride;
    sample_alone(own, timing, numbers, detector, n, a, b);
  }
  series[n] = make_float4(a.x, a.y, b.x, b.y);
}
