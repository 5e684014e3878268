// Discrete Fourier transforms of a few numbers in a thread's registers: X[k] = sum_j x[j] exp(-2 pi i j k / R).
#pragma once

typedef float2 complex;
#define DEVICE static __device__ __forceinline__

DEVICE complex operator+(complex a, complex b) { return make_float2(a.x + b.x, a.y + b.y); }
DEVICE complex operator-(complex a, complex b) { return make_float2(a.x - b.x, a.y - b.y); }
DEVICE complex operator*(float s, complex a) { return make_float2(s * a.x, s * a.y); }
DEVICE complex operator*(complex a, complex b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
DEVICE float norm(complex a) { return a.x * a.x + a.y * a.y; }

// ---------------------------------------------------------------- constants known to the compiler
constexpr double TWO_PI = 6.283185307179586476925286766559;

// Taylor series, for arguments of at most pi / 4
constexpr double small_sin(double x) {
  double term = x, sum = x;
  for (int i = 2; i < 24; i += 2) { term *= -x * x / (i * (i + 1)); sum += term; }
  return sum;
}
constexpr double small_cos(double x) {
  double term = 1, sum = 1;
  for (int i = 1; i < 23; i += 2) { term *= -x * x / (i * (i + 1)); sum += term; }
  return sum;
}
// cos(2 pi k / n), from the nearest quarter of a turn
constexpr double cos_turn(int k, int n) {
  k = (k % n + n) % n;
  const int quarter = (8 * k + n) / (2 * n);
  const double rest = TWO_PI * ((double)k / n - 0.25 * quarter);
  switch (quarter % 4) {
    case 0: return small_cos(rest);
    case 1: return -small_sin(rest);
    case 2: return -small_cos(rest);
    default: return small_sin(rest);
  }
}
constexpr double sin_turn(int k, int n) { return cos_turn(4 * k - n, 4 * n); }

constexpr int gcd(int a, int b) { return b ? gcd(b, a % b) : a; }

template <int VALUE> struct Constant { static constexpr int value = VALUE; };
// f(Constant<FIRST>()), ..., f(Constant<LAST - 1>())
template <int FIRST, int LAST, class F> DEVICE void for_each(F f) {
  if constexpr (FIRST < LAST) { f(Constant<FIRST>()); for_each<FIRST + 1, LAST>(f); }
}

// a exp(-2 pi i K / N); multiples of an eighth of a turn need no full product
template <int K, int N> DEVICE complex turned(complex a) {
  constexpr int k = K % N;
  constexpr float h = 0.70710678118654752f;
  if constexpr (k == 0) return a;
  else if constexpr (4 * k == N) return make_float2(a.y, -a.x);
  else if constexpr (2 * k == N) return make_float2(-a.x, -a.y);
  else if constexpr (4 * k == 3 * N) return make_float2(-a.y, a.x);
  else if constexpr (8 * k == N) return make_float2((a.x + a.y) * h, (a.y - a.x) * h);
  else if constexpr (8 * k == 3 * N) return make_float2((a.y - a.x) * h, (a.x + a.y) * -h);
  else if constexpr (8 * k == 5 * N) return make_float2((a.x + a.y) * -h, (a.x - a.y) * h);
  else if constexpr (8 * k == 7 * N) return make_float2((a.x - a.y) * h, (a.x + a.y) * h);
  else {
    constexpr float c = (float)cos_turn(k, N), s = (float)sin_turn(k, N);
    return make_float2(a.x * c + a.y * s, a.y * c - a.x * s);
  }
}

// ---------------------------------------------------------------- transforms of R numbers, in place
template <int R> struct Dft;

template <> struct Dft<1> { DEVICE void run(complex *) {} };
template <> struct Dft<2> {
  DEVICE void run(complex *v) { const complex a = v[0]; v[0] = a + v[1]; v[1] = a - v[1]; }
};
template <> struct Dft<3> {
  DEVICE void run(complex *v) {
    constexpr float h = (float)sin_turn(1, 3);
    const complex sum = v[1] + v[2], difference = h * (v[1] - v[2]), rest = v[0] - 0.5f * sum;
    v[0] = v[0] + sum;
    v[1] = make_float2(rest.x + difference.y, rest.y - difference.x);
    v[2] = make_float2(rest.x - difference.y, rest.y + difference.x);
  }
};
template <> struct Dft<4> {
  DEVICE void run(complex *v) {
    const complex a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = turned<1, 4>(v[1] - v[3]);
    v[0] = a + c; v[1] = b + d; v[2] = a - c; v[3] = b - d;
  }
};
template <> struct Dft<5> {
  DEVICE void run(complex *v) {
    constexpr float c1 = (float)cos_turn(1, 5), c2 = (float)cos_turn(2, 5), s1 = (float)sin_turn(1, 5), s2 = (float)sin_turn(2, 5);
    const complex a = v[1] + v[4], b = v[2] + v[3], c = v[1] - v[4], d = v[2] - v[3];
    const complex near = v[0] + c1 * a + c2 * b, far = v[0] + c2 * a + c1 * b, e = s1 * c + s2 * d, f = s2 * c - s1 * d;
    v[0] = v[0] + a + b;
    v[1] = make_float2(near.x + e.y, near.y - e.x); v[4] = make_float2(near.x - e.y, near.y + e.x);
    v[2] = make_float2(far.x + f.y, far.y - f.x); v[3] = make_float2(far.x - f.y, far.y + f.x);
  }
};

// First factor of a composite radix; the second is what is left. Coprime factors need no twiddles between them.
constexpr int first_factor(int r) {
  return r == 6 ? 2 : r == 8 ? 2 : r == 10 ? 2 : r == 9 ? 3 : r == 12 ? 3 : r == 15 ? 3 : r == 16 ? 4 : r == 18 ? 2 : r == 20 ? 4 : r == 24 ? 3 : 0;
}
constexpr int remainders(int x, int a, int y, int b) {  // the number below a b that leaves x modulo a and y modulo b
  for (int k = 0; k < a * b; ++k) if (k % a == x && k % b == y) return k;
  return 0;
}

template <int R> struct Dft {
  static constexpr int A = first_factor(R), B = R / A;
  static constexpr bool COPRIME = gcd(A, B) == 1;
  DEVICE void run(complex *v) {
    complex t[R];
#pragma unroll
    for (int b = 0; b < B; ++b) {
      complex u[A];
#pragma unroll
      for (int a = 0; a < A; ++a) u[a] = v[COPRIME ? (B * a + A * b) % R : B * a + b];
      Dft<A>::run(u);
      for_each<0, A>([&](auto a) { t[decltype(a)::value * B + b] = u[decltype(a)::value]; });
    }
    if constexpr (!COPRIME)
      for_each<1, A>([&](auto a) {
        for_each<1, B>([&](auto b) {
          constexpr int i = decltype(a)::value, j = decltype(b)::value;
          t[i * B + j] = turned<i * j, R>(t[i * B + j]);
        });
      });
    for_each<0, A>([&](auto a) {
      constexpr int i = decltype(a)::value;
      Dft<B>::run(t + i * B);
      for_each<0, B>([&](auto b) {
        constexpr int j = decltype(b)::value;
        v[COPRIME ? remainders(i, A, j, B) : i + A * j] = t[i * B + j];
      });
    });
  }
};

// w, w^2, w^3, ... one after the other, each from a few products only so that rounding errors stay small; times c if
// `scaled`: where the compiler knows whether, it leaves out the other case
struct Powers {
  complex low[4], fourth, high;  // w^0 to w^3 (w^0 not used), w^4, and w^(4 n) times c
  bool scaled;
  DEVICE Powers of(complex w, bool scaled, complex c) {
    Powers p;
    p.low[1] = w; p.low[2] = w * w; p.low[3] = p.low[2] * w; p.fourth = p.low[2] * p.low[2];
    p.high = c;
    p.scaled = scaled;
    return p;
  }
  __device__ __forceinline__ complex at(int q) {  // q in rising order
    if (q == 0) return high;
    if (q < 4 && !scaled) return low[q];
    if (q % 4) return high * low[q % 4];
    high = q == 4 && !scaled ? fourth : high * fourth;
    return high;
  }
};
