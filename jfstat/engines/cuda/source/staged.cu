// Means over segments from the sums of a few that templates share, staged in shared memory; otherwise as `sums.cu`.
//
// A block takes GROUPS groups of TEMPLATES templates and TILES times RUN consecutive bins. The different sums that its
// templates read, of one few segments after the other, are copied to shared memory while those before are added up. A warp
// has V bins in every lane and the templates of a group, whose largest mean at each bin it writes; all means are counted.
//
// Constants: THREADS, BLOCKS (on a multiprocessor), GROUPS, TEMPLATES, RUN, TILES, STEP (bins by which a template's may begin
// later than the staged ones), ROWS (sums that there is room for), MEMORY (bytes of `Memory`), BINS (of the histogram), WIDTH
// (of a bin) and COPIES (of the histogram, so that blocks do not wait for each other).
#include "histogram.cuh"

constexpr int WARPS = THREADS / 32, ACROSS = WARPS / GROUPS, V = RUN / (32 * ACROSS), ALL = GROUPS * TEMPLATES;
constexpr int LONG = RUN + STEP, PARTS = LONG / 4, LANES = 16;
static_assert(WARPS % GROUPS == 0 && RUN % (32 * ACROSS) == 0, "equal shares for all warps");
static_assert(LONG % (4 * LANES) == 0 && TEMPLATES == 32, "copies of 16 bytes, and a template of each group for every lane");
static_assert(ALL * LONG <= 65536, "places have 16 bits");

// The first part of a block's shared memory.
struct Memory {
  float lots[2][ROWS * LONG];
  int counters[BINS][THREADS];
};
static_assert(sizeof(Memory) == MEMORY, "as much as the launch asks for");

__device__ __forceinline__ void copy(void *to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

// Adds the values of one sum to the totals; if not all sums were staged, those of the templates whose sum was.
template <bool SOME>
__device__ __forceinline__ void add(float (&total)[TEMPLATES][V], const float *from, const uint4 *places, int before) {
#pragma unroll
  for (int i = 0; i < TEMPLATES / 8; ++i) {
    const uint4 eight = places[i];
    const unsigned two[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int place = (int)(j % 2 ? two[j / 2] >> 16 : two[j / 2] & 0xffff) - (SOME ? before : 0);
      if (!SOME || (place >= 0 && place < ROWS * LONG))
#pragma unroll
        for (int v = 0; v < V; ++v) total[8 * i + j][v] += from[place + v * 32];
    }
  }
}

// Counts the means and takes the maxima of the totals, which it sets to 0. Unless EVERY mean counts, `ends` are the first and
// the last bin at which those of each template do.
template <bool EVERY>
__device__ __forceinline__ void finish(float (&total)[TEMPLATES][V], float (&top)[V], int *counters, const int2 *ends, int number,
                                       const Histogram &bins) {
  const float none = -__int_as_float(0x7f800000);
#pragma unroll
  for (int j = 0; j < TEMPLATES; ++j) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      float sum = total[j][v];
      int one = 1;
      if (!EVERY) {
        const int bin = number + v * 32;
        if (bin < ends[j].x || bin > ends[j].y) sum = none;
        one = sum > none;
      }
      total[j][v] = 0;
      top[v] = fmaxf(top[v], sum);
      // an atomic addition, though no other thread counts here: the next need not wait for it
      atomicAdd(counters + bins.bin(sum) * THREADS, one);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
staged(const float *__restrict__ values, const int *__restrict__ list, const int *__restrict__ count, const unsigned short *__restrict__ place,
       const int2 *__restrict__ counted, const int *__restrict__ numbers, const float *__restrict__ scales, const int *, float *__restrict__ tops,
       int *__restrict__ histogram) {
  extern __shared__ float4 given[];
  Memory &memory = *reinterpret_cast<Memory *>(given);
  const int n_sums = numbers[0], length = numbers[1], n_blocks = numbers[2], room = numbers[3], padding = numbers[4], t = threadIdx.x;
  // of each sum, after the above: where the bins of all templates begin, how many are different, and which
  uint4 *places = reinterpret_cast<uint4 *>(&memory + 1);
  int *counts = reinterpret_cast<int *>(places + n_sums * (ALL / 8)), *lists = counts + n_sums;
  // groups fastest: blocks that run together read the same part of the band
  const int block = blockIdx.x % n_blocks, run = blockIdx.x / n_blocks, tiles = length / RUN, runs = (tiles + TILES - 1) / TILES;
  const int piece = run / runs, first = run % runs * TILES, n_tiles = min(TILES, tiles - first);
  const int group = t / 32 / ACROSS, bin = t / 32 % ACROSS * 32 * V + t % 32, width = length + STEP;
  const size_t own = ((size_t)piece * n_blocks + block) * n_sums;
  const float *begin = values + (size_t)piece * room * width + first * RUN;
  for (int i = t; i < n_sums * (ALL / 8); i += THREADS) places[i] = reinterpret_cast<const uint4 *>(place + own * ALL)[i];
  for (int i = t; i < n_sums; i += THREADS) counts[i] = count[own + i];
  for (int i = t; i < n_sums * ROWS; i += THREADS) lists[i] = list[(own + i / ROWS) * ALL + i % ROWS];
#pragma unroll
  for (int i = 0; i < BINS; ++i) memory.counters[i][t] = 0;
  const int2 *ends = counted + block * ALL + group * TEMPLATES;
  // bins at which all means of the group count
  const int low = __reduce_max_sync(0xffffffff, ends[t % 32].x) + padding, high = __reduce_min_sync(0xffffffff, ends[t % 32].y) - padding;
  __syncthreads();

  // copies some of the sums that are listed to a lot, a row by half a warp
  const auto copied = [&](const int *listed, int rows, int tile, int lot) {
    for (int row = t / LANES; row < rows; row += THREADS / LANES) {
      const float *from = begin + (size_t)listed[row] * width + tile * RUN + t % LANES * 4;
      float *to = memory.lots[lot] + row * LONG + t % LANES * 4;
#pragma unroll
      for (int i = 0; i < PARTS; i += LANES) copy(to + i * 4, from + i * 4);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  const Histogram bins(scales);
  float total[TEMPLATES][V];
#pragma unroll
  for (int j = 0; j < TEMPLATES; ++j)
#pragma unroll
    for (int v = 0; v < V; ++v) total[j][v] = 0;
  copied(lists, min(counts[0], ROWS), 0, 0);
  int lot = 0;
  for (int tile = 0; tile < n_tiles; ++tile) {
#pragma unroll 1
    for (int sum = 0; sum < n_sums; ++sum, lot ^= 1) {
      const bool end = sum + 1 == n_sums;
      if (end && tile + 1 == n_tiles) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
      } else {
        const int next = end ? 0 : sum + 1;
        copied(lists + next * ROWS, min(counts[next], ROWS), tile + end, lot ^ 1);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
      }
      __syncthreads();
      const float *from = memory.lots[lot] + bin;
      const uint4 *mine = places + sum * (ALL / 8) + group * (TEMPLATES / 8);
      if (counts[sum] <= ROWS) {
        add<false>(total, from, mine, 0);
      } else {
#pragma unroll 1
        for (int before = 0; before < counts[sum]; before += ROWS) {
          if (before) {  // the next ones
            __syncthreads();
            copied(list + (own + sum) * ALL + before, min(counts[sum] - before, ROWS), tile, lot);
            asm volatile("cp.async.wait_group 0;" ::: "memory");
            __syncthreads();
          }
          add<true>(total, from, mine, before * LONG);
        }
      }
      __syncthreads();
    }

    const int start = (first + tile) * RUN, number = piece * length + start + bin;
    float top[V];
#pragma unroll
    for (int v = 0; v < V; ++v) top[v] = -__int_as_float(0x7f800000);
    if (number - bin >= low && number - bin + RUN - 1 <= high)
      finish<true>(total, top, memory.counters[0] + t, ends, number, bins);
    else
      finish<false>(total, top, memory.counters[0] + t, ends, number, bins);
    float *to = tops + (((size_t)piece * n_blocks + block) * GROUPS + group) * length + start + bin;
#pragma unroll
    for (int v = 0; v < V; ++v) to[v * 32] = top[v] * scales[0];
  }

  __syncthreads();
  int *own_copy = histogram + blockIdx.x % COPIES * BINS;
  for (int at = t / 32; at < BINS; at += WARPS) {
    int sum = 0;
    for (int other = t % 32; other < THREADS; other += 32) sum += memory.counters[at][other];
    sum = __reduce_add_sync(0xffffffff, sum);
    if (t % 32 == 0 && sum) atomicAdd(own_copy + at, sum);
  }
}
