// Shared memory, and transforms of R1 R2 R3 numbers that the threads of a group exchange through it.
#pragma once
#include "constants.cuh"
#include "dft.cuh"

// By 32-bit addresses in bytes: generic pointers would take two registers each.
DEVICE unsigned shared_start() {
  extern __shared__ float4 shared[];
  return (unsigned)__cvta_generic_to_shared(shared);
}
DEVICE complex load_shared(unsigned at) {
  complex v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at));
  return v;
}
DEVICE float4 load_shared4(unsigned at) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at));
  return v;
}
DEVICE void store_shared(unsigned at, complex v) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(v.x), "f"(v.y) : "memory");
}
DEVICE void store_shared4(unsigned at, float4 v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}

// A transform of N = R1 R2 R3 numbers spread over T threads, which hold E each. Stage by stage, thread t takes the
// butterflies t, t + T, ... of N / R; threads for which none is left wait. On entry v[j R1 + i] = x[t + T j + (N / R1) i];
// on return v[j R + q] = X[t + T j + (N / R) q], R being the last radix that is not 1.
// first_twiddle(j, q) is the factor of q after the first radix, q in rising order, from 0 on if `all`, else from 1; second_twiddle(v, q, j) multiplies
// v by that after the second.
// In shared memory, PITCH numbers lie between those of neighbouring q after the first radix, and SECOND_PITCH between
// those of neighbouring b, the last digit of t, after the second (constants: kernels.pitches).
// Between two uses of `first` and of `second` all threads must have met once more; with R3 > 1 they do within, if these
// two are not the same.
template <int R, int N, int T> struct Stage {
  static constexpr int BUTTERFLIES = N / R, EACH_THREAD = (BUTTERFLIES + T - 1) / T;
  // Whether thread t has a j-th butterfly
  DEVICE constexpr bool has(int t, int j) { return BUTTERFLIES % T == 0 || t + T * j < BUTTERFLIES; }
};

template <int R1, int R2, int R3, int E, int T, int COLUMNS, class F1, class F2>
DEVICE void transform(complex (&v)[E], int t, int column, unsigned first, unsigned second, bool all, F1 first_twiddle, F2 second_twiddle) {
  constexpr int STEP = 8 * COLUMNS, N = R1 * R2 * R3;
  using One = Stage<R1, N, T>;
  using Two = Stage<R2, N, T>;
  using Three = Stage<R3, N, T>;
  const unsigned own = first + (t * COLUMNS + column) * 8;
#pragma unroll
  for (int j = 0; j < One::EACH_THREAD; ++j)
    if (One::has(t, j)) {
      Dft<R1>::run(v + j * R1);
#pragma unroll
      for (int q = 0; q < R1; ++q) {
        if (q || all) v[j * R1 + q] = v[j * R1 + q] * first_twiddle(j, q);
        store_shared(own + (q * PITCH + T * j) * STEP, v[j * R1 + q]);
      }
    }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < Two::EACH_THREAD; ++j)
    if (Two::has(t, j)) {
      const int s = t + T * j, q1 = s / R3, b = s % R3;
      const unsigned from = first + (q1 * PITCH + b) * STEP + column * 8;
#pragma unroll
      for (int i = 0; i < R2; ++i) v[j * R2 + i] = load_shared(from + R3 * i * STEP);
    }
  if (R3 > 1 && first == second) __syncthreads();
#pragma unroll
  for (int j = 0; j < Two::EACH_THREAD; ++j)
    if (Two::has(t, j)) {
      const int s = t + T * j, q1 = s / R3, b = s % R3;
      Dft<R2>::run(v + j * R2);
#pragma unroll
      for (int q = 1; q < R2; ++q) v[j * R2 + q] = second_twiddle(v[j * R2 + q], q, j);
      if constexpr (R3 > 1) {
        const unsigned to = second + (b * SECOND_PITCH + q1) * STEP + column * 8;
#pragma unroll
        for (int q = 0; q < R2; ++q) store_shared(to + R1 * q * STEP, v[j * R2 + q]);
      }
    }
  if constexpr (R3 > 1) {
    __syncthreads();
    const unsigned from = second + (t * COLUMNS + column) * 8;
#pragma unroll
    for (int j = 0; j < Three::EACH_THREAD; ++j)
      if (Three::has(t, j)) {
#pragma unroll
        for (int i = 0; i < R3; ++i) v[j * R3 + i] = load_shared(from + (i * SECOND_PITCH + T * j) * STEP);
        Dft<R3>::run(v + j * R3);
      }
  }
}

// exp(-2 pi i r / n), 0 <= r < n
DEVICE complex root(unsigned r, unsigned n) {
  const int near = r > n / 2 ? (int)r - (int)n : (int)r;
  float s, c;
  sincospif((float)near * (-2.0f / (float)n), &s, &c);
  return make_float2(c, s);
}
