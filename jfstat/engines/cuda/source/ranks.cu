// Which of the shared sums a group of templates reads, for `staged.cu`; see `shared.SharedSums`.
//
// Constants: TEMPLATES of a group, which are the threads of a block, and WIDTH, the bins of a sum that are staged.
#include "constants.cuh"

static_assert(TEMPLATES * WIDTH <= 65536, "places have 16 bits");

// A block takes one group and one of the sums that each of its templates reads. The different sums among these are listed,
// in the order of the first template that reads each, and counted; a template's place is where its bins begin if the
// listed sums stand one after the other, WIDTH bins each.
extern "C" __global__ void __launch_bounds__(TEMPLATES)
ranks(const int *__restrict__ index, const int *__restrict__ shift, int *__restrict__ list, int *__restrict__ count, unsigned short *__restrict__ place) {
  __shared__ int own[TEMPLATES], rank[TEMPLATES], of_warp[TEMPLATES / 32];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const size_t at = (size_t)blockIdx.x * TEMPLATES + t;
  const int mine = index[at];
  own[t] = mine;
  __syncthreads();
  int first = 0;
  while (own[first] != mine) ++first;
  const unsigned firsts = __ballot_sync(0xffffffff, first == t);
  if (lane == 0) of_warp[warp] = __popc(firsts);
  __syncthreads();
  int before = 0, all = 0;
  for (int w = 0; w < TEMPLATES / 32; ++w) {
    before += w < warp ? of_warp[w] : 0;
    all += of_warp[w];
  }
  rank[t] = before + __popc(firsts & ((1u << lane) - 1));
  if (first == t) list[(size_t)blockIdx.x * TEMPLATES + rank[t]] = mine;
  if (t == 0) count[blockIdx.x] = all;
  __syncthreads();
  place[at] = (unsigned short)(rank[first] * WIDTH + shift[at]);
}
