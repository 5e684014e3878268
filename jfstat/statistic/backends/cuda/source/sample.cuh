// One sample of a template's two weighted series: the position in the band series, its interpolation, the phase.
//
// Constants: DETECTORS, FILTERS and HALVES (interpolation filters, of which the last HALVES are in float16), PLANES
// (positions between two samples for which there are filters, a power of two), REACH (how far their argument may lie
// from them, in samples), COLUMNS (samples of a row), EACH (1: every sample has its own rounded position; 0: every row)
// and SHARED (1: the series of a sky position is at hand, and only a phase is left to remove).
#pragma once
#include "exchange.cuh"

constexpr int SLOPES = 4096;  // jfstat.data.blocks.SLOPES
constexpr int SINGLES = FILTERS - HALVES, WORDS = 2 * SINGLES + HALVES, QUADS = (WORDS + 3) / 4;
constexpr int TIMING = SHARED ? 2 : 5;   // float4 of a block's timing; see kernels.packed_timing and packed_phase
constexpr int ROW = SHARED ? 16 : 48;    // bytes of a row's timing in shared memory

struct Numbers {  // of a batch, the same for all templates; kernels.numbers
  int n_columns, block, n_blocks, length;
};

struct Filters {
  const float4 *at;
  float scale[HALVES ? HALVES : 1];  // what the float16 filters are to be multiplied by
  unsigned stride;                    // float4 from one group of four words to the next
  unsigned long long keep;            // cache policy: what many templates read stays in the L2 cache
};

DEVICE unsigned long long policy_keep() {
  unsigned long long p;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p));
  return p;
}
DEVICE unsigned long long policy_leave() {
  unsigned long long p;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
  return p;
}
DEVICE float4 load_kept(const float4 *p, unsigned long long policy) {
  float4 v;
  asm("ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p), "l"(policy));
  return v;
}
DEVICE void store_leaving(complex *p, complex v, unsigned long long policy) {
  asm volatile("st.global.L2::cache_hint.v2.f32 [%0], {%1, %2}, %3;" ::"l"(p), "f"(v.x), "f"(v.y), "l"(policy) : "memory");
}
DEVICE complex halves(float word) {
  complex v;
  asm("{.reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}" : "=f"(v.x), "=f"(v.y) : "r"(__float_as_uint(word)));
  return v;
}
DEVICE float cubic(float4 c, float u) { return c.x + u * (c.y + u * (c.z + u * c.w)); }
DEVICE float slope(float4 c, float u) { return c.y + u * (2 * c.z + 3 * u * c.w); }
DEVICE complex turn(float cycles) {  // exp(2 pi i cycles)
  const float angle = (cycles - rintf(cycles)) * (float)TWO_PI;
  return make_float2(__cosf(angle), __sinf(angle));
}

// The band series at x from the middle of a plane, in units of REACH
DEVICE complex interpolated(const Filters &filters, unsigned index, float x) {
  float w[QUADS * 4];
#pragma unroll
  for (int q = 0; q < QUADS; ++q) {
    const float4 v = load_kept(filters.at + (q * filters.stride + index), filters.keep);
    w[4 * q] = v.x; w[4 * q + 1] = v.y; w[4 * q + 2] = v.z; w[4 * q + 3] = v.w;
  }
  complex sum = make_float2(w[0] + w[2] * x, w[1] + w[3] * x);
  float lower = 1, current = x;
#pragma unroll
  for (int p = 2; p < FILTERS; ++p) {
    const float next = 2 * x * current - lower;
    lower = current; current = next;
    if (p < SINGLES) sum = sum + current * make_float2(w[2 * p], w[2 * p + 1]);
    else sum = sum + (current * filters.scale[p - SINGLES]) * halves(w[2 * SINGLES + p - SINGLES]);
  }
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
  const float4 z = load_kept(series.at + n, series.keep);
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
                                     -(phase.z + 3 * u * phase.w) * (per_sample * per_sample), -phase.w * (per_sample * per_sample * per_sample));
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
                                (position.z + 3 * u * position.w) * (per_sample * per_sample * inverse)));
  store_shared4(at + 16, removed);
  store_shared4(at + 32, make_float4(cubic(weight_a, u), slope(weight_a, u) * per_sample, cubic(weight_b, u), slope(weight_b, u) * per_sample));
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
  a = a + (weight.x + d * weight.y) * z;
  b = b + (weight.z + d * weight.w) * z;
}
