/* Convolution of any shape and its weight gradient, image by image.
 *
 * Arrays are [batch, depth, height, width, channels], kernels [taps, channels of a group, outputs].
 * A plan, made by the caller, says which inputs an output reads. It consists of phases: sets of
 * outputs that read the same taps (one phase, unless the input is dilated). A run is a row of taps
 * whose inputs lie next to each other in memory. An image is copied into a frame of zeros where it
 * has to be padded.
 *
 * A tile is R neighbouring outputs of a row by V vectors of LANES output channels, all in registers;
 * R * V fills them. With V = 1 there would be one load for every multiplication, so up to three
 * neighbouring taps of a run share the inputs that they read: tap t of output r reads input r + t.
 *
 * LANES comes from the command line of the compiler.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EACH _Pragma("GCC unroll 32")
#define INLINE static inline __attribute__((always_inline))
#define MOST 24
#define LINE 16     /* floats in a cache line */
#define CACHED 6000 /* floats that stay in the first cache */

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t mask __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4)));

typedef struct {
    int64_t offset, taps; /* of its first input in the frame; channels of each tap follow */
} run_t;

typedef struct {
    int64_t start[3], step[3], count[3]; /* its outputs */
    int64_t stride[3];                   /* from one of its outputs to the next, in the frame */
    int64_t runs, taps;
    const run_t *run;
    const int64_t *tap; /* where in the kernel each of its taps is */
} phase_t;

typedef struct {
    int64_t batch, groups, channels, outputs; /* the latter two of one group */
    int64_t in[3], frame[3], low[3], out[3];
    int64_t by_tap, by_group, by_channel, by_output; /* strides of the kernel */
    int64_t taps, phases;
    const int64_t *rest;
} plan_t;

INLINE vec load(const float *from) { return *(const loose *)from; }
INLINE void store(float *to, vec value) { *(loose *)to = value; }
/* Zero where `by` is not above zero. */
INLINE vec positive(vec value, vec by) { return (vec)((mask)value & ~(by <= 0)); }
INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t volume(const int64_t size[3]) { return size[0] * size[1] * size[2]; }
INLINE int64_t at(const int64_t size[3], int64_t z, int64_t y, int64_t x) { return (z * size[1] + y) * size[2] + x; }

/* T taps of one run, channel by channel. Pointers three outputs apart keep addresses in registers;
 * the empty asm keeps the compiler from making one of every output. */
INLINE void add_taps(const int V, const int R, const int T, vec *s, const float *x, int64_t step,
                     const float *w, int64_t channels) {
    const int inputs = R + T - 1, pointers = (inputs + 2) / 3;
    const float *p[(MOST + 4) / 3];
    EACH for (int q = 0; q < pointers; q++) p[q] = x + 3 * q * step;
    for (int64_t c = 0; c < channels; c++) {
        vec tap[3];
        EACH for (int q = 0; q < pointers; q++) __asm__("" : "+r"(p[q]));
        EACH for (int i = 0; i < T * V; i++) tap[i] = load(w + (i / V * channels * V + i % V) * LANES);
        EACH for (int j = 0; j < inputs; j++) {
            const float input = *(p[j / 3] + j % 3 * step);
            EACH for (int t = 0; t < T; t++)
                if (j >= t && j - t < R)
                    EACH for (int v = 0; v < V; v++) s[(j - t) * V + v] += input * tap[t * V + v];
        }
        EACH for (int q = 0; q < pointers; q++) p[q]++;
        w += V * LANES;
    }
}

/* What is computed is added to `from`: a bias, zeros, or the result so far. */
typedef struct {
    const float *x, *w, *from;
    float *out;
    int64_t channels, step, out_step, from_step, width, relu;
} tile_t;

INLINE void tile(const int V, const int R, const tile_t *job, const phase_t *phase) {
    const int64_t channels = job->channels, step = job->step;
    const float *w = job->w;
    vec s[MOST];
    EACH for (int i = 0; i < R * V; i++) s[i] = load(job->from + i / V * job->from_step + i % V * LANES);
    for (int64_t i = 0; i < phase->runs; i++) {
        const float *x = job->x + phase->run[i].offset;
        int64_t taps = phase->run[i].taps;
        if (V == 1 && step == channels) {
            for (; taps >= 3; taps -= 3, x += 3 * channels, w += 3 * channels * LANES) add_taps(V, R, 3, s, x, step, w, channels);
            for (; taps >= 2; taps -= 2, x += 2 * channels, w += 2 * channels * LANES) add_taps(V, R, 2, s, x, step, w, channels);
        }
        add_taps(V, R, 1, s, x, step, w, taps * channels);
        w += taps * channels * V * LANES;
    }
    if (job->relu) {
        EACH for (int i = 0; i < R * V; i++) s[i] = positive(s[i], s[i]);
    }
    if (job->width == V * LANES) {
        EACH for (int i = 0; i < R * V; i++) store(job->out + i / V * job->out_step + i % V * LANES, s[i]);
    } else {
        float rows[MOST * LANES];
        EACH for (int i = 0; i < R * V; i++) store(rows + i * LANES, s[i]);
        for (int r = 0; r < R; r++) memcpy(job->out + r * job->out_step, rows + r * V * LANES, job->width * sizeof(float));
    }
}

typedef struct {
    const float *x, *by;
    float *sums;
    int64_t step, row_step, by_step, by_row_step, pixels, rows, pitch; /* pitch: between the sums of two taps */
} gather_t;

/* Weight gradient of R channels of T taps by V vectors of outputs: the sum over pixels of input r + t
 * times what comes back to output r. */
INLINE void gather(const int V, const int R, const int T, const gather_t *job) {
    vec s[MOST];
    EACH for (int i = 0; i < T * R * V; i++) s[i] = load(job->sums + i / (R * V) * job->pitch + i % (R * V) * LANES);
    for (int64_t y = 0; y < job->rows; y++) {
        const float *x = job->x + y * job->row_step, *by = job->by + y * job->by_row_step;
        vec back[3]; /* of the last T outputs, for V = 1, or V vectors of one output */
#define ADD(FROM, TO)                                                                              \
    EACH for (int r = 0; r < R; r++)                                                               \
        EACH for (int tap = FROM; tap < TO; tap++)                                                 \
            EACH for (int v = 0; v < V; v++) s[(tap * R + r) * V + v] += x[r] * back[tap * V + v]
        EACH for (int t = 0; t < T - 1; t++) {
            EACH for (int later = t; later > 0; later--) back[later] = back[later - 1];
            back[0] = load(by);
            ADD(0, t + 1);
            x += job->step, by += job->by_step;
        }
        for (int64_t i = T - 1; i < job->pixels; i++, x += job->step, by += job->by_step) {
            EACH for (int t = T - 1; t > 0; t--) back[t] = back[t - 1];
            EACH for (int v = 0; v < V; v++) back[v] = load(by + v * LANES);
            ADD(0, T);
        }
        EACH for (int t = 1; t < T; t++) {
            EACH for (int later = T - 1; later >= t; later--) back[later] = back[later - 1];
            ADD(t, T);
            x += job->step;
        }
#undef ADD
    }
    EACH for (int i = 0; i < T * R * V; i++) store(job->sums + i / (R * V) * job->pitch + i % (R * V) * LANES, s[i]);
}

/* All sizes of tiles, by V and R; gathers by V, T and R. */
typedef void tile_function(const tile_t *, const phase_t *);
typedef void gather_function(const gather_t *);
#define TILE(V, R)                                                                                 \
    static void tile_##V##_##R(const tile_t *job, const phase_t *phase) { tile(V, R, job, phase); }
#define GATHER(V, T, R)                                                                            \
    static void gather_##V##_##T##_##R(const gather_t *job) { gather(V, R, T, job); }
#define TILE_ENTRY(V, R) [V][R] = tile_##V##_##R,
#define GATHER_ENTRY(V, T, R) [V][T][R] = gather_##V##_##T##_##R,
#define TO_4(M, ...) M(__VA_ARGS__, 1) M(__VA_ARGS__, 2) M(__VA_ARGS__, 3) M(__VA_ARGS__, 4)
#define TO_6(M, ...) TO_4(M, __VA_ARGS__) M(__VA_ARGS__, 5) M(__VA_ARGS__, 6)
#define TO_8(M, ...) TO_6(M, __VA_ARGS__) M(__VA_ARGS__, 7) M(__VA_ARGS__, 8)
#define TO_12(M, ...) TO_8(M, __VA_ARGS__) M(__VA_ARGS__, 9) M(__VA_ARGS__, 10) M(__VA_ARGS__, 11) M(__VA_ARGS__, 12)
#define TO_22(M, ...)                                                                              \
    TO_12(M, __VA_ARGS__) M(__VA_ARGS__, 13) M(__VA_ARGS__, 14) M(__VA_ARGS__, 15) M(__VA_ARGS__, 16) M(__VA_ARGS__, 17) \
    M(__VA_ARGS__, 18) M(__VA_ARGS__, 19) M(__VA_ARGS__, 20) M(__VA_ARGS__, 21) M(__VA_ARGS__, 22)
#if LANES == 16
#define TILES(M) TO_22(M, 1) TO_12(M, 2) TO_8(M, 3)
#define GATHERS(M) TO_22(M, 1, 1) TO_12(M, 1, 2) TO_8(M, 1, 3) TO_12(M, 2, 1) TO_8(M, 3, 1)
static const int64_t MOST_SUMS[] = {0, 22, 12, 8}; /* R, by V or by T */
#else
#define TILES(M) TO_12(M, 1) TO_6(M, 2) TO_4(M, 3)
#define GATHERS(M) TO_12(M, 1, 1) TO_6(M, 1, 2) TO_4(M, 1, 3) TO_6(M, 2, 1) TO_4(M, 3, 1)
static const int64_t MOST_SUMS[] = {0, 12, 6, 4};
#endif
TILES(TILE)
GATHERS(GATHER)
static tile_function *const tiles[4][MOST] = {TILES(TILE_ENTRY)};
static gather_function *const gathers[4][4][MOST] = {GATHERS(GATHER_ENTRY)};

/* Vectors of outputs are taken two at a time, the last one or three at once. */
INLINE int64_t vectors(int64_t outputs) { return (outputs + LANES - 1) / LANES; }
INLINE int64_t block(int64_t left) { return left == 1 || left == 3 ? left : 2; }
/* The size of equal parts of which none is larger than `most`. */
INLINE int64_t share(int64_t length, int64_t most) {
    int64_t parts = (length + most - 1) / most;
    return (length + parts - 1) / parts;
}

static plan_t read_plan(const int64_t *numbers) {
    plan_t plan;
    const int64_t size = offsetof(plan_t, rest);
    memcpy(&plan, numbers, size);
    plan.rest = numbers + size / sizeof(int64_t);
    return plan;
}

static const int64_t *read_phase(const int64_t *numbers, phase_t *phase) {
    const int64_t size = offsetof(phase_t, run);
    memcpy(phase, numbers, size);
    phase->run = (const run_t *)(numbers + size / sizeof(int64_t));
    phase->tap = (const int64_t *)(phase->run + phase->runs);
    return phase->tap + phase->taps;
}

static const float *framed(const plan_t *p, const float *image, float *frame) {
    const int64_t channels = p->groups * p->channels;
    if (memcmp(p->in, p->frame, sizeof p->in) == 0) return image;
    for (int64_t z = 0; z < p->in[0]; z++)
        for (int64_t y = 0; y < p->in[1]; y++)
            memcpy(frame + at(p->frame, z + p->low[0], y + p->low[1], p->low[2]) * channels,
                   image + at(p->in, z, y, 0) * channels, p->in[2] * channels * sizeof(float));
    return frame;
}

/* The kernel in the order in which tiles read it: [group, phase, block, tap, channel, V * LANES]. */
static void pack(const plan_t *p, const float *kernel, int reversed, float *to) {
    for (int64_t group = 0; group < p->groups; group++) {
        const int64_t *numbers = p->rest;
        for (int64_t f = 0; f < p->phases; f++) {
            phase_t phase;
            numbers = read_phase(numbers, &phase);
            for (int64_t first = 0, V; first < vectors(p->outputs); first += V) {
                V = block(vectors(p->outputs) - first);
                const int64_t width = least(p->outputs - first * LANES, V * LANES);
                for (int64_t i = 0; i < phase.taps * p->channels; i++, to += V * LANES) {
                    const int64_t tap = phase.tap[i / p->channels];
                    const float *from = kernel + (reversed ? p->taps - 1 - tap : tap) * p->by_tap + group * p->by_group +
                                        i % p->channels * p->by_channel + first * LANES * p->by_output;
                    for (int64_t o = 0; o < width; o++) to[o] = from[o * p->by_output];
                    memset(to + width, 0, (V * LANES - width) * sizeof(float));
                }
            }
        }
    }
}

static void convolve_phase(const plan_t *p, const phase_t *phase, tile_t job, int64_t V) {
    const int64_t channels = p->groups * p->channels, outputs = p->groups * p->outputs;
    const int64_t pixels = phase->count[2], R = share(pixels, MOST_SUMS[V]);
    const float *x = job.x, *from = job.from;
    float *out = job.out;
    job.step = phase->stride[2] * channels;
    job.out_step = phase->step[2] * outputs;
    job.from_step = from == out ? job.out_step : 0;
    for (int64_t z = 0; z < phase->count[0]; z++)
        for (int64_t y = 0; y < phase->count[1]; y++)
            for (int64_t i = 0; i < pixels; i += R) {
                job.x = x + at(p->frame, z * phase->stride[0], y * phase->stride[1], i * phase->stride[2]) * channels;
                const int64_t place = at(p->out, phase->start[0] + z * phase->step[0], phase->start[1] + y * phase->step[1],
                                         phase->start[2] + i * phase->step[2]) * outputs;
                job.out = out + place;
                job.from = from == out ? job.out : from;
                tiles[V][least(R, pixels - i)](&job, phase);
            }
}

INLINE int64_t whole_lines(int64_t floats) { return (floats + LINE - 1) / LINE * LINE; }
INLINE int64_t frame_size(const plan_t *p) { return whole_lines(volume(p->frame) * p->groups * p->channels); }
INLINE int64_t sums_size(const plan_t *p) { return p->groups * p->taps * p->channels * vectors(p->outputs) * LANES; }
/* Outputs filled up to whole vectors, for the weight gradient. */
INLINE int64_t wide_size(const plan_t *p) {
    const int64_t lanes = vectors(p->outputs) * LANES;
    return p->outputs == lanes ? 0 : volume(p->out) * p->groups * lanes;
}
static int64_t packed_size(const plan_t *p) {
    int64_t rows = 0;
    phase_t phase;
    const int64_t *numbers = p->rest;
    for (int64_t f = 0; f < p->phases; f++, rows += phase.taps) numbers = read_phase(numbers, &phase);
    return p->groups * rows * p->channels * vectors(p->outputs) * LANES;
}

/* One image. `from` is `out`, to add to it, or a bias, of which 3 * LANES floats after the last are read;
 * a frame has zeros where the image has to be padded. */
static void convolve_image(const plan_t *p, const float *x, const float *packed, float *frame, const float *from,
                           int relu, float *out) {
    const int64_t all = vectors(p->outputs);
    const float *image = framed(p, x, frame), *w = packed;
    phase_t phase;
    for (int64_t group = 0; group < p->groups; group++) {
        const int64_t *numbers = p->rest;
        for (int64_t f = 0; f < p->phases; f++) {
            numbers = read_phase(numbers, &phase);
            for (int64_t first = 0, V; first < all; first += V) {
                V = block(all - first);
                const int64_t place = group * p->outputs + first * LANES;
                const tile_t job = {
                    .x = image + group * p->channels,
                    .w = w,
                    .from = from + place,
                    .out = out + place,
                    .channels = p->channels,
                    .width = least(p->outputs - first * LANES, V * LANES),
                    .relu = relu,
                };
                convolve_phase(p, &phase, job, V);
                w += phase.taps * p->channels * V * LANES;
            }
        }
    }
}

/* One phase of one image and one block of outputs; sums are [tap, channel, V * LANES]. As many rows at
 * a time as stay in the first cache, since every tile of sums reads them. */
static void gather_phase(const plan_t *p, const phase_t *phase, gather_t job, int64_t V, int64_t columns) {
    const int64_t channels = p->groups * p->channels, depth = volume(p->frame) / p->frame[0] * channels;
    const float *x = job.x, *by = job.by + at(p->out, phase->start[0], phase->start[1], phase->start[2]) * columns;
    float *sums = job.sums;
    job.step = phase->stride[2] * channels;
    job.row_step = phase->stride[1] * p->frame[2] * channels;
    job.by_step = phase->step[2] * columns;
    job.by_row_step = phase->step[1] * p->out[2] * columns;
    job.pixels = phase->count[2], job.pitch = p->channels * V * LANES;
    const int slides = V == 1 && job.step == p->channels;
    const int64_t rows = 1 + CACHED / (job.row_step + job.pixels * V * LANES);
    for (int64_t z = 0; z < phase->count[0]; z++)
        for (int64_t y = 0; y < phase->count[1]; y += rows) {
            const int64_t *tap = phase->tap;
            const float *from = x + z * phase->stride[0] * depth + y * job.row_step;
            job.rows = least(rows, phase->count[1] - y);
            job.by = by + z * phase->step[0] * p->out[1] * p->out[2] * columns + y * job.by_row_step;
            for (int64_t i = 0; i < phase->runs; tap += phase->run[i++].taps)
                for (int64_t done = 0, T; done < phase->run[i].taps; done += T) {
                    T = slides ? least(least(3, job.pixels), phase->run[i].taps - done) : phase->run[i].taps;
                    const int64_t shared = slides ? T : 1, length = T / shared * p->channels;
                    const int64_t R = share(length, MOST_SUMS[shared > 1 ? shared : V]);
                    for (int64_t c = 0; c < length; c += R) {
                        job.x = from + phase->run[i].offset + done * p->channels + c;
                        job.sums = sums + (tap[done] * p->channels + c) * V * LANES;
                        gathers[V][shared][least(R, length - c)](&job);
                    }
                }
        }
}

/* Adds one image's weight gradient to sums [group, block, tap, channel, V * LANES]. */
static void gather_image(const plan_t *p, const float *x, const float *by, float *frame, float *wide, float *sums) {
    const int64_t all = vectors(p->outputs), lanes = all * LANES, rows = p->taps * p->channels;
    const float *image = framed(p, x, frame);
    if (wide_size(p)) {
        for (int64_t i = 0; i < volume(p->out) * p->groups; i++)
            memcpy(wide + i * lanes, by + i * p->outputs, p->outputs * sizeof(float));
        by = wide;
    }
    for (int64_t group = 0; group < p->groups; group++) {
        const int64_t *rest = p->rest;
        phase_t phase;
        for (int64_t f = 0; f < p->phases; f++) {
            rest = read_phase(rest, &phase);
            for (int64_t first = 0, V; first < all; first += V) {
                V = block(all - first);
                const gather_t job = {
                    .x = image + group * p->channels,
                    .by = by + (group * all + first) * LANES,
                    .sums = sums + (group * all + first) * rows * LANES,
                };
                gather_phase(p, &phase, job, V, p->groups * lanes);
            }
        }
    }
}

/* Adds `factor` times the sums to a kernel. */
static void add_sums(const plan_t *p, const float *sums, float factor, float *kernel) {
    const int64_t all = vectors(p->outputs), rows = p->taps * p->channels;
    for (int64_t group = 0; group < p->groups; group++)
        for (int64_t first = 0, V; first < all; first += V) {
            V = block(all - first);
            const float *from = sums + (group * all + first) * rows * LANES;
            const int64_t width = least(p->outputs - first * LANES, V * LANES);
            for (int64_t row = 0; row < rows; row++) {
                float *to = kernel + row / p->channels * p->by_tap + group * p->by_group +
                            row % p->channels * p->by_channel + first * LANES * p->by_output;
                for (int64_t o = 0; o < width; o++) to[o * p->by_output] += factor * from[row * V * LANES + o];
            }
        }
}
