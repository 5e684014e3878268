// One sample of a template's two weighted series: the position in the band series, its interpolation, the phase.
//
// Constants: DETECTORS, PLANES (parts of the interval between two samples, a power of two), FILTERS (interpolation
// filters of each part: coefficients of powers), REACH (how far their argument may lie from its middle, in samples),
// COLUMNS (samples of a row), EACH (1: every sample has its own rounded position; 0: every row), CURVED (1: the weights of
// a row are parabolas; 0: lines) and SHARED (1: the series of a sky position is at hand, and only a phase is left to
// remove).
#pragma once
#include "exchange.cuh"

constexpr int SLOPES = 4096;  // jfstat.data.blocks.SLOPES
constexpr int QUADS = (FILTERS + 1) / 2;
constexpr int TIMING = SHARED ? 2 : 5;   // float4 of a block's timing; see kernels.packed_timing and packed_phase
constexpr int ROW = SHARED ? 16 : CURVED ? 64 : 48;  // bytes of a row's timing in shared memory

struct Numbers {  // of a batch, the same for all templates; kernels.numbers
  int n_columns, block, n_blocks, length;
};

struct Filters {
  const float4 *at;
  unsigned stride;  // samples of all planes: from one group of four words to the next
};

// 32-bit offsets leave the addition to the load
DEVICE float4 load(const float4 *from, unsigned index) {
  return __ldg((const float4 *)((const char *)from + (size_t)(index * 16u)));
}
DEVICE unsigned long long policy_leave() {
  unsigned long long p;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
  return p;
}
DEVICE void store_leaving(complex *p, complex v, unsigned long long policy) {
  asm volatile("st.global.L2::cache_hint.v2.f32 [%0], {%1, %2}, %3;" ::"l"(p), "f"(v.x), "f"(v.y), "l"(policy) : "memory");
}
DEVICE float cubic(float4 c, float u) { return c.x + u * (c.y + u * (c.z + u * c.w)); }
DEVICE float slope(float4 c, float u) { return c.y + u * (2 * c.z + 3 * u * c.w); }
DEVICE float curvature(float4 c, float u) { return c.z + 3 * u * c.w; }  // half the second derivative
DEVICE complex turn(float cycles) {  // exp(2 pi i cycles)
  const float angle = (cycles - rintf(cycles)) * (float)TWO_PI;
  return make_float2(__cosf(angle), __sinf(angle));
}

// The band series at x from the middle of a plane, in units of REACH
DEVICE complex interpolated(const Filters &filters, unsigned index, float x) {
  float w[QUADS * 4];
#pragma unroll
  for (int q = 0; q < QUADS; ++q) {
    const float4 v = load(filters.at + (size_t)q * filters.stride, index);
    w[4 * q] = v.x; w[4 * q + 1] = v.y; w[4 * q + 2] = v.z; w[4 * q + 3] = v.w;
  }
  complex sum = make_float2(w[2 * FILTERS - 2], w[2 * FILTERS - 1]);
#pragma unroll
  for (int p = FILTERS - 2; p >= 0; --p) sum = make_float2(w[2 * p] + x * sum.x, w[2 * p + 1] + x * sum.y);
  return sum;
}

constexpr int log2(int n) { return n > 1 ? 1 + log2(n / 2) : 0; }

// A shift in samples as whole samples, a plane between them, and the distance from its middle.
DEVICE void split(float shift, int &whole, int &plane, float &x) {
  const int number = (int)floorf((shift + 0.5f) * PLANES);
  whole = number >> log2(PLANES);
  plane = number & (PLANES - 1);
  x = (shift + 0.5f - (number + 0.5f) * (1.0f / PLANES)) * (float)(1 / REACH);
}

// A sample of the series that templates of one sky position share
DEVICE void rotated(const Filters &series, int n, complex phasor, complex &a, complex &b) {
  const float4 z = load(series.at, n);
  a = make_float2(z.x, z.y) * phasor;
  b = make_float2(z.z, z.w) * phasor;
}

// ---------------------------------------------------------------- every sample by itself
DEVICE void sample_alone(const Filters &filters, const float4 *timing, const Numbers &numbers, int detector, int n, complex &a, complex &b) {
  const int block = n / numbers.block, j = n - block * numbers.block;
  if (block >= numbers.n_blocks) return;
  const float4 *own = timing + ((size_t)detector * numbers.n_blocks + block) * TIMING;
  const float u = (2 * j + 1) / (float)numbers.block - 1;
  if constexpr (SHARED) {
    const int whole_slope = __float_as_int(__ldg(own + 1).x);
    const float cycles = cubic(__ldg(own), u) + (float)((whole_slope * j) & (SLOPES - 1)) * (1.0f / SLOPES);
    rotated(filters, n, turn(-cycles), a, b);
    return;
  }
  const float4 whole_numbers = __ldg(own + 4);
  int whole, plane;
  float x;
  split(cubic(__ldg(own), u), whole, plane, x);
  const int index = max(0, min(__float_as_int(whole_numbers.x) + j + whole, numbers.length - 1));
  const float cycles = cubic(__ldg(own + 1), u) + (float)((__float_as_int(whole_numbers.y) * j) & (SLOPES - 1)) * (1.0f / SLOPES);
  const complex z = interpolated(filters, (unsigned)plane * numbers.length + index, x) * turn(-cycles);
  a = a + cubic(__ldg(own + 2), u) * z;
  b = b + cubic(__ldg(own + 3), u) * z;
}

// ---------------------------------------------------------------- rows of COLUMNS samples with one whole shift
// The timing of a row, expanded about its middle, for all its samples.
DEVICE void make_row(unsigned at, const float4 *timing, const Numbers &numbers, int detector, int n) {
  const int block = n / numbers.block, first = n - block * numbers.block, middle = first + COLUMNS / 2;
  if (block >= numbers.n_blocks) {
#pragma unroll
    for (int i = 0; i < ROW; i += 16) store_shared4(at + i, make_float4(0, 0, 0, 0));
    return;
  }
  const float4 *own = timing + ((size_t)detector * numbers.n_blocks + block) * TIMING;
  const float per_sample = 2.0f / numbers.block, u = (2 * middle + 1) / (float)numbers.block - 1;
  const float4 phase = __ldg(own + (SHARED ? 0 : 1)), whole_numbers = __ldg(own + (SHARED ? 1 : 4));
  const int whole_slope = __float_as_int(SHARED ? whole_numbers.x : whole_numbers.y);
  float cycles = (float)((whole_slope * middle) & (SLOPES - 1)) * (1.0f / SLOPES) + cubic(phase, u);
  const int signed_slope = whole_slope >= SLOPES / 2 ? whole_slope - SLOPES : whole_slope;
  const float4 removed = make_float4(rintf(cycles) - cycles, -(signed_slope * (1.0f / SLOPES) + slope(phase, u) * per_sample),
                                     -curvature(phase, u) * (per_sample * per_sample), -phase.w * (per_sample * per_sample * per_sample));
  if constexpr (SHARED) {
    store_shared4(at, removed);
    return;
  }
  const float4 position = __ldg(own), weight_a = __ldg(own + 2), weight_b = __ldg(own + 3);
  int whole, plane;
  float x;
  split(cubic(position, u), whole, plane, x);
  const int index = max(0, min(__float_as_int(whole_numbers.x) + first + whole, numbers.length - COLUMNS));
  const float inverse = (float)(1 / REACH);
  store_shared4(at, make_float4(__int_as_float(plane * numbers.length + index), x, slope(position, u) * (per_sample * inverse),
                                curvature(position, u) * (per_sample * per_sample * inverse)));
  store_shared4(at + 16, removed);
  store_shared4(at + 32, make_float4(cubic(weight_a, u), slope(weight_a, u) * per_sample, cubic(weight_b, u), slope(weight_b, u) * per_sample));
  if constexpr (CURVED)
    store_shared(at + 48, make_float2(curvature(weight_a, u) * (per_sample * per_sample), curvature(weight_b, u) * (per_sample * per_sample)));
}

// Sample `column` of a row, d = column - COLUMNS / 2; n is its number in the series.
DEVICE void sample_of_row(const Filters &filters, unsigned row, unsigned column, float d, int n, complex &a, complex &b) {
  if constexpr (SHARED) {
    const float4 removed = load_shared4(row);
    rotated(filters, n, turn(removed.x + d * (removed.y + d * (removed.z + d * removed.w))), a, b);
    return;
  }
  const float4 position = load_shared4(row), removed = load_shared4(row + 16), weight = load_shared4(row + 32);
  const float x = position.y + d * (position.z + d * position.w);
  const complex z = interpolated(filters, __float_as_int(position.x) + column, x)
                    * turn(removed.x + d * (removed.y + d * (removed.z + d * removed.w)));
  const complex curved = CURVED ? load_shared(row + 48) : make_float2(0, 0);
  a = a + (weight.x + d * (weight.y + (CURVED ? d * curved.x : 0))) * z;
  b = b + (weight.z + d * (weight.w + (CURVED ? d * curved.y : 0))) * z;
}
