/* SGD and evaluation of the small-CNN family, one learner to a thread.
 *
 * Network: 3x3 convolution, ReLU, 2x2 max-pool, 3x3 convolution, ReLU, linear. A vector holds
 * LANES neighbouring columns of one row of pooled pixels; rows are ROW floats, the last of which
 * may be dead. The input is kept as four planes, one for each parity of row and column, so that
 * the four pixels of a pooling window are loads from four planes. Weights are kept in the order
 * in which the loops read them, and unpacked from and packed to the tensors of the model.
 *
 * Sizes come from the command line of the compiler: SIDE, CHANNELS, FIRST, SECOND, LABELS, LANES.
 */
#if LANES > 4
#include <immintrin.h>
#endif
#include <math.h>
#include <stdint.h>
#include <string.h>

#define HALF (SIDE / 2)
#define ROW 16
#define PARTS (ROW / LANES)
#define STRIDE (LANES == 8 ? ROW + 8 : ROW + 4)
#define FEATURES (SECOND * HALF * HALF)
#define VECTORS (SECOND * HALF * PARTS)
#define GROUP (FIRST % 6 == 0 ? 6 : FIRST % 4 == 0 ? 4 : 1)
#define POOLED (FIRST % 2 == 0 ? 2 : 1) /* outputs at a time: enough sums to wait for none */
#if LANES == 16 || defined(__aarch64__)
#define LEARNED SECOND /* outputs at a time: 32 registers hold their sums */
#else
#define LEARNED (SECOND % 3 == 0 ? 3 : SECOND)
#endif
#if LANES > 4 /* a value that is read several times stays in its register */
#define HELD(value) __asm__("" : "+x"(value))
#else
#define HELD(value)
#endif
#define IMAGES 4 /* that are tested at a time */
#define SCORED (LABELS % 5 == 0 ? 5 : LABELS % 4 == 0 ? 4 : LABELS % 3 == 0 ? 3 : LABELS % 2 == 0 ? 2 : 1)
#define EACH _Pragma("GCC unroll 16")
#define ALWAYS inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t mask __attribute__((vector_size(4 * LANES)));

typedef struct {
    vec linear[VECTORS][LABELS];
    float conv1[CHANNELS][3][3][FIRST], bias1[FIRST];
    float conv2[FIRST][3][3][SECOND], bias2[SECOND];
    float conv2_by_output[SECOND][3][3][FIRST];
    float bias[LABELS];
} weights_t;

typedef struct {
    float pixels[CHANNELS][2][2][HALF + 1][STRIDE];
    float before[LANES - 1]; /* so that the second float of a row begins a vector */
    float pooled[FIRST][HALF + 2][STRIDE];
    float by_scores[SECOND][HALF + 2][STRIDE];
    mask winner[FIRST][HALF][PARTS];
    vec by_pooled[FIRST][HALF][PARTS];
    vec features[VECTORS];
} memory_t;

static inline vec load(const float *from) { return *(const loose *)from; }
static inline void store(float *to, vec value) { *(loose *)to = value; }
static inline vec where(mask chosen, vec value) { return (vec)(chosen & (mask)value); }
#if LANES == 16
static inline vec larger(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
#elif LANES == 8
static inline vec larger(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
#else /* of any processor, such as an ARM with NEON */
static inline vec larger(vec a, vec b) {
    const mask chosen = a > b;
    return (vec)((chosen & (mask)a) | (~chosen & (mask)b));
}
#endif

typedef float half_t __attribute__((vector_size(2 * LANES)));
typedef float four_t __attribute__((vector_size(16)));

/* The sum of all lanes, by halves. */
static inline float total(vec value) {
#if LANES == 4
    four_t four = value;
#else
    half_t halves[2];
    memcpy(halves, &value, sizeof halves);
    half_t sum = halves[0] + halves[1];
#if LANES == 16
    four_t quarters[2];
    memcpy(quarters, &sum, sizeof quarters);
    four_t four = quarters[0] + quarters[1];
#else
    four_t four;
    memcpy(&four, &sum, sizeof four);
#endif
#endif
    return (four[0] + four[2]) + (four[1] + four[3]);
}

static inline mask live(int part) {
    mask lanes;
    EACH for (int lane = 0; lane < LANES; lane++) lanes[lane] = part * LANES + lane < HALF ? -1 : 0;
    return lanes;
}

#define READ_IMAGE(NAME, TYPE, SCALE)                                                              \
    static void NAME(memory_t *m, const TYPE *image) {                                             \
        for (int channel = 0; channel < CHANNELS; channel++)                                       \
            for (int y = 0; y < SIDE; y++) {                                                       \
                const TYPE *row = image + (y * SIDE) * CHANNELS + channel;                         \
                float *even = m->pixels[channel][(y + 1) & 1][0][(y + 1) >> 1];                    \
                float *odd = m->pixels[channel][(y + 1) & 1][1][(y + 1) >> 1];                     \
                for (int j = 0; j < HALF; j++) {                                                   \
                    odd[j] = row[2 * j * CHANNELS] * (SCALE);                                      \
                    even[j + 1] = row[(2 * j + 1) * CHANNELS] * (SCALE);                           \
                }                                                                                  \
            }                                                                                      \
    }
#if LANES == 16 && CHANNELS == 1 && SIDE >= 16
/* The same for whole rows: their first and last 16 bytes, sorted by parity. */
static void read_bytes(memory_t *m, const uint8_t *image) {
    const __mmask16 half = (1u << HALF) - 1;
    int32_t places[2][16];
    for (int j = 0; j < 16; j++)
        for (int parity = 0; parity < 2; parity++) {
            const int x = 2 * j + parity;
            places[parity][j] = x < 16 ? x : x - (SIDE - 16) + 16;
        }
    const __m512i evens = _mm512_loadu_si512(places[0]), odds = _mm512_loadu_si512(places[1]);
    const __m512 scale = _mm512_set1_ps(1.0f / 255);
    for (int y = 0; y < SIDE; y++) {
        const uint8_t *row = image + y * SIDE;
        const __m128i first = _mm_loadu_si128((const __m128i *)row);
        const __m128i last = _mm_loadu_si128((const __m128i *)(row + SIDE - 16));
        const __m512 a = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(first)), scale);
        const __m512 b = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(last)), scale);
        float(*planes)[HALF + 1][STRIDE] = m->pixels[0][(y + 1) & 1];
        _mm512_mask_storeu_ps(&planes[1][(y + 1) >> 1][0], half, _mm512_permutex2var_ps(a, evens, b));
        _mm512_mask_storeu_ps(&planes[0][(y + 1) >> 1][1], half, _mm512_permutex2var_ps(a, odds, b));
    }
}
#else
READ_IMAGE(read_bytes, uint8_t, 1.0f / 255)
#endif
READ_IMAGE(read_floats, float, 1.0f)

static inline void read_image(memory_t *m, const void *images, int floats, int64_t which) {
    int64_t start = which * SIDE * SIDE * CHANNELS;
    if (floats) read_floats(m, (const float *)images + start);
    else read_bytes(m, (const uint8_t *)images + start);
}

/* The 4 x 4 pixels around each pooling window of a row, as one vector each. */
static inline void windows(const memory_t *m, int channel, int i, int part, vec x[4][4]) {
    EACH for (int r = 0; r < 4; r++)
        EACH for (int c = 0; c < 4; c++)
            x[r][c] = load(&m->pixels[channel][r & 1][c & 1][i + (r >> 1)][part * LANES + (c >> 1)]);
}

static inline void convolve_and_pool(const weights_t *w, memory_t *m, const int learning) {
    for (int i = 0; i < HALF; i++)
        for (int part = 0; part < PARTS; part++) {
            vec x[CHANNELS][4][4];
            for (int channel = 0; channel < CHANNELS; channel++) windows(m, channel, i, part, x[channel]);
            for (int first = 0; first < FIRST; first += POOLED) {
                vec s[POOLED][4];
                EACH for (int o = 0; o < POOLED; o++)
                    EACH for (int k = 0; k < 4; k++) s[o][k] = (vec){} + w->bias1[first + o];
                for (int channel = 0; channel < CHANNELS; channel++)
                    EACH for (int dy = 0; dy < 3; dy++)
                        EACH for (int dx = 0; dx < 3; dx++)
                            EACH for (int o = 0; o < POOLED; o++) {
                                float tap = w->conv1[channel][dy][dx][first + o];
                                EACH for (int k = 0; k < 4; k++) s[o][k] += tap * x[channel][dy + (k >> 1)][dx + (k & 1)];
                            }
                EACH for (int o = 0; o < POOLED; o++) {
                    vec s0 = s[o][0], s1 = s[o][1], s2 = s[o][2], s3 = s[o][3];
                    vec best = larger(larger(s0, s1), larger(s2, s3));
                    if (learning) {
                        mask on = (best > 0) & live(part);
                        mask is0 = s0 == best, is1 = ~is0 & (s1 == best), is2 = ~is0 & ~is1 & (s2 == best);
                        m->winner[first + o][i][part] =
                            (on & ((is1 & 1) | (is2 & 2) | (~is0 & ~is1 & ~is2 & 3))) | (~on & 4);
                    }
                    store(&m->pooled[first + o][i + 1][1 + part * LANES], where(live(part), larger(best, (vec){})));
                }
            }
        }
}

static void convolve(const weights_t *w, memory_t *m, vec features[VECTORS]) {
    for (int i = 0; i < HALF; i += 2)
        for (int part = 0; part < PARTS; part++) {
            const int at = part * LANES;
            vec s[2][SECOND];
            EACH for (int o = 0; o < SECOND; o++) s[0][o] = s[1][o] = (vec){} + w->bias2[o];
            for (int c = 0; c < FIRST; c++)
                EACH for (int dx = 0; dx < 3; dx++) {
                    vec v0 = load(&m->pooled[c][i][at + dx]), v1 = load(&m->pooled[c][i + 1][at + dx]);
                    vec v2 = load(&m->pooled[c][i + 2][at + dx]), v3 = load(&m->pooled[c][i + 3][at + dx]);
                    EACH for (int o = 0; o < SECOND; o++) {
                        float t0 = w->conv2[c][0][dx][o], t1 = w->conv2[c][1][dx][o], t2 = w->conv2[c][2][dx][o];
                        s[0][o] = s[0][o] + t0 * v0, s[1][o] = s[1][o] + t0 * v1;
                        s[0][o] = s[0][o] + t1 * v1, s[1][o] = s[1][o] + t1 * v2;
                        s[0][o] = s[0][o] + t2 * v2, s[1][o] = s[1][o] + t2 * v3;
                    }
                }
            EACH for (int o = 0; o < SECOND; o++)
                EACH for (int row = 0; row < 2; row++)
                    features[(o * HALF + i + row) * PARTS + part] = where((s[row][o] > 0) & live(part), s[row][o]);
        }
}

/* Of one image, or of several, for which the linear weights are read once. */
static inline void score(const weights_t *w, const int images, vec features[][VECTORS], float scores[][LABELS]) {
    const int labels = images == 1 ? LABELS : SCORED; /* at a time: their sums stay in registers */
    for (int first = 0; first < LABELS; first += labels) {
        vec s[LABELS][IMAGES];
        EACH for (int l = 0; l < labels; l++) EACH for (int n = 0; n < images; n++) s[l][n] = (vec){};
        for (int v = 0; v < VECTORS; v++)
            EACH for (int l = 0; l < labels; l++)
                EACH for (int n = 0; n < images; n++) s[l][n] += w->linear[v][first + l] * features[n][v];
        for (int l = 0; l < labels; l++)
            for (int n = 0; n < images; n++) scores[n][first + l] = w->bias[first + l] + total(s[l][n]);
    }
}

/* Each step back moves `to`, which is `w` itself if a step takes one sample: then a layer is updated
 * as soon as nothing needs its old weights any more. */
static ALWAYS void learn_linear(const weights_t *w, weights_t *to, memory_t *m, const float by_score[LABELS],
                                float rate) {
    for (int o = 0; o < SECOND; o++)
        for (int i = 0; i < HALF; i++)
            for (int part = 0; part < PARTS; part++) {
                int v = (o * HALF + i) * PARTS + part;
                vec a = m->features[v], by = {}, scaled = a * rate;
                EACH for (int l = 0; l < LABELS; l++) {
                    vec tap = w->linear[v][l];
                    by += by_score[l] * tap;
                    to->linear[v][l] = (to == w ? tap : to->linear[v][l]) - by_score[l] * scaled;
                }
                store(&m->by_scores[o][i + 1][1 + part * LANES], where(a > 0, by));
            }
    for (int l = 0; l < LABELS; l++) to->bias[l] -= rate * by_score[l];
}

static void back_to_pooled(const weights_t *w, memory_t *m) {
    for (int first = 0; first < FIRST; first += GROUP)
        for (int i = 0; i < HALF; i += 2)
            for (int part = 0; part < PARTS; part++) {
                const int at = part * LANES;
                vec s[2][GROUP];
                EACH for (int c = 0; c < GROUP; c++) s[0][c] = s[1][c] = (vec){};
                for (int o = 0; o < SECOND; o++)
                    EACH for (int dx = 0; dx < 3; dx++) {
                        vec v0 = load(&m->by_scores[o][i][at + dx]), v1 = load(&m->by_scores[o][i + 1][at + dx]);
                        vec v2 = load(&m->by_scores[o][i + 2][at + dx]), v3 = load(&m->by_scores[o][i + 3][at + dx]);
                        EACH for (int c = 0; c < GROUP; c++) {
                            float t0 = w->conv2_by_output[o][2][2 - dx][first + c];
                            float t1 = w->conv2_by_output[o][1][2 - dx][first + c];
                            float t2 = w->conv2_by_output[o][0][2 - dx][first + c];
                            s[0][c] = s[0][c] + t0 * v0, s[1][c] = s[1][c] + t0 * v1;
                            s[0][c] = s[0][c] + t1 * v1, s[1][c] = s[1][c] + t1 * v2;
                            s[0][c] = s[0][c] + t2 * v2, s[1][c] = s[1][c] + t2 * v3;
                        }
                    }
                EACH for (int c = 0; c < GROUP; c++) {
                    m->by_pooled[first + c][i][part] = s[0][c];
                    m->by_pooled[first + c][i + 1][part] = s[1][c];
                }
            }
}

static ALWAYS void learn_second(weights_t *to, const memory_t *m, float rate) {
    for (int c = 0; c < FIRST; c++)
        for (int dy = 0; dy < 3; dy++)
            for (int first = 0; first < SECOND; first += LEARNED) {
                vec s[3][LEARNED];
                EACH for (int o = 0; o < LEARNED; o++) s[0][o] = s[1][o] = s[2][o] = (vec){};
                for (int i = 0; i < HALF; i++)
                    EACH for (int at = 0; at < ROW; at += LANES) {
                        const float *row = &m->pooled[c][i + dy][at];
                        vec v0 = load(row), v1 = load(row + 1), v2 = load(row + 2);
                        HELD(v0);
                        HELD(v1);
                        HELD(v2);
                        EACH for (int o = 0; o < LEARNED; o++) {
                            vec by = load(&m->by_scores[first + o][i + 1][1 + at]);
                            HELD(by);
                            s[0][o] += by * v0;
                            s[1][o] += by * v1;
                            s[2][o] += by * v2;
                        }
                    }
                EACH for (int dx = 0; dx < 3; dx++)
                    EACH for (int o = 0; o < LEARNED; o++) {
                        float tap = to->conv2[c][dy][dx][first + o] - rate * total(s[dx][o]);
                        to->conv2[c][dy][dx][first + o] = to->conv2_by_output[first + o][dy][dx][c] = tap;
                    }
            }
    for (int o = 0; o < SECOND; o++) {
        vec s = {};
        for (int i = 0; i < HALF; i++)
            for (int at = 0; at < ROW; at += LANES) s += load(&m->by_scores[o][i + 1][1 + at]);
        to->bias2[o] -= rate * total(s);
    }
}

static ALWAYS void learn_first(weights_t *to, const memory_t *m, float rate) {
    for (int o = 0; o < FIRST; o++) {
        vec by_bias = {};
        for (int channel = 0; channel < CHANNELS; channel++) {
            vec s[3][3] = {};
            for (int i = 0; i < HALF; i++)
                for (int part = 0; part < PARTS; part++) {
                    vec by = m->by_pooled[o][i][part], x[4][4];
                    mask winner = m->winner[o][i][part];
                    vec g0 = where(winner == 0, by), g1 = where(winner == 1, by);
                    vec g2 = where(winner == 2, by), g3 = where(winner == 3, by);
                    windows(m, channel, i, part, x);
                    EACH for (int dy = 0; dy < 3; dy++)
                        EACH for (int dx = 0; dx < 3; dx++) {
                            s[dy][dx] = s[dy][dx] + g0 * x[dy][dx];
                            s[dy][dx] = s[dy][dx] + g1 * x[dy][dx + 1];
                            s[dy][dx] = s[dy][dx] + g2 * x[dy + 1][dx];
                            s[dy][dx] = s[dy][dx] + g3 * x[dy + 1][dx + 1];
                        }
                    if (channel == 0) by_bias += (g0 + g1) + (g2 + g3);
                }
            EACH for (int dy = 0; dy < 3; dy++)
                EACH for (int dx = 0; dx < 3; dx++) to->conv1[channel][dy][dx][o] -= rate * total(s[dy][dx]);
        }
        to->bias1[o] -= rate * total(by_bias);
    }
}

static void softmax(const float scores[LABELS], float outputs[LABELS]) {
    float top = scores[0], sum = 0;
    for (int l = 1; l < LABELS; l++) top = scores[l] > top ? scores[l] : top;
    for (int l = 0; l < LABELS; l++) sum += outputs[l] = expf(scores[l] - top);
    for (int l = 0; l < LABELS; l++) outputs[l] /= sum;
}

/* Tensors in payload order: conv1 bias, kernel [3,3,C,O]; conv2 likewise; linear bias, kernel [L,F]. */
static void unpack(weights_t *w, float *const t[6]) {
    memset(w, 0, sizeof *w);
    memcpy(w->bias1, t[0], sizeof w->bias1);
    memcpy(w->bias2, t[2], sizeof w->bias2);
    memcpy(w->bias, t[4], sizeof w->bias);
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 3; x++) {
            for (int c = 0; c < CHANNELS; c++)
                for (int o = 0; o < FIRST; o++) w->conv1[c][y][x][o] = t[1][((y * 3 + x) * CHANNELS + c) * FIRST + o];
            for (int c = 0; c < FIRST; c++)
                for (int o = 0; o < SECOND; o++)
                    w->conv2[c][y][x][o] = w->conv2_by_output[o][y][x][c] = t[3][((y * 3 + x) * FIRST + c) * SECOND + o];
        }
    for (int l = 0; l < LABELS; l++)
        for (int row = 0; row < SECOND * HALF; row++)
            for (int j = 0; j < HALF; j++)
                w->linear[row * PARTS + j / LANES][l][j % LANES] = t[5][l * FEATURES + row * HALF + j];
}

static void pack(const weights_t *w, float *const t[6]) {
    memcpy(t[0], w->bias1, sizeof w->bias1);
    memcpy(t[2], w->bias2, sizeof w->bias2);
    memcpy(t[4], w->bias, sizeof w->bias);
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 3; x++) {
            for (int c = 0; c < CHANNELS; c++)
                for (int o = 0; o < FIRST; o++) t[1][((y * 3 + x) * CHANNELS + c) * FIRST + o] = w->conv1[c][y][x][o];
            for (int c = 0; c < FIRST; c++)
                for (int o = 0; o < SECOND; o++) t[3][((y * 3 + x) * FIRST + c) * SECOND + o] = w->conv2[c][y][x][o];
        }
    for (int l = 0; l < LABELS; l++)
        for (int row = 0; row < SECOND * HALF; row++)
            for (int j = 0; j < HALF; j++)
                t[5][l * FEATURES + row * HALF + j] = w->linear[row * PARTS + j / LANES][l][j % LANES];
}

/* Images [count, H, W, C] and their label distributions [count, L]. */
typedef struct {
    const void *images;
    const float *targets;
    int64_t count;
    int32_t floats;
} samples_t;

/* Targets that are numbers: the edges of the bins of the first, and the loss of each error. */
typedef struct {
    const float *edges;
    int32_t edge_count, form;
} numbers_t;

enum { SQUARED, ABSOLUTE, HUBER };

static inline float slope(int form, float error) {
    if (form == SQUARED) return error;
    if (form == ABSOLUTE) return (error > 0) - (error < 0);
    return error > 1 ? 1 : error < -1 ? -1 : error;
}

/* The sums of a target's bin, and the gradient by each output; a teacher's zero row says nothing. */
static void study_numbers(const numbers_t *numbers, const float *outputs, const float *target,
                          const float *teacher, float beta, float *sums, float *counts, float *by_output) {
    int bin = 0, known = 0;
    for (int e = 0; e < numbers->edge_count; e++) bin += target[0] >= numbers->edges[e];
    const float *taught = teacher + bin * LABELS;
    counts[bin] += 1;
    for (int l = 0; l < LABELS; l++) {
        known |= taught[l] != 0;
        sums[bin * LABELS + l] += outputs[l];
    }
    for (int l = 0; l < LABELS; l++) {
        const float own = slope(numbers->form, outputs[l] - target[l]);
        const float other = known ? beta * slope(numbers->form, outputs[l] - taught[l]) : 0;
        by_output[l] = (own + other) / LABELS;
    }
}

/* What all steps of a call have in common; sums [L,L] and counts [L] are added to. */
typedef struct {
    const samples_t *sets;
    const float *teacher, *offset;
    float beta, *sums, *counts;
    const numbers_t *numbers; /* NULL: targets are labels */
} lesson_t;

/* Outputs, sums and the gradient by scores of one sample with a label. */
static ALWAYS void study_label(const lesson_t *lesson, float scores[LABELS], const float *label,
                               float by_score[LABELS]) {
    float outputs[LABELS], goal[LABELS], mass = 0;
    softmax(scores, outputs);
    memcpy(goal, label, sizeof goal);
    for (int l = 0; l < LABELS; l++) {
        if (label[l] == 0) continue;
        lesson->counts[l] += label[l];
        for (int k = 0; k < LABELS; k++) {
            goal[k] += lesson->beta * label[l] * lesson->teacher[l * LABELS + k];
            lesson->sums[l * LABELS + k] += label[l] * outputs[k];
        }
    }
    if (lesson->offset) {
        for (int l = 0; l < LABELS; l++) scores[l] += lesson->offset[l];
        softmax(scores, outputs);
    }
    for (int l = 0; l < LABELS; l++) mass += goal[l];
    for (int l = 0; l < LABELS; l++) by_score[l] = mass * outputs[l] - goal[l];
}

/* Moves `to` by what one sample says of `w`. */
static ALWAYS void learn_sample(weights_t *w, weights_t *to, memory_t *m, const lesson_t *lesson, int64_t drawn,
                                float rate) {
    const samples_t *sets = lesson->sets, *set = sets + (drawn >= sets->count);
    const int64_t which = drawn - (set == sets ? 0 : sets->count);
    const float *target = set->targets + which * LABELS;
    float scores[LABELS], by_score[LABELS];
    read_image(m, set->images, set->floats, which);
    convolve_and_pool(w, m, 1);
    convolve(w, m, m->features);
    score(w, 1, &m->features, &scores);
    if (lesson->numbers)
        study_numbers(lesson->numbers, scores, target, lesson->teacher, lesson->beta, lesson->sums,
                      lesson->counts, by_score);
    else study_label(lesson, scores, target, by_score);
    learn_linear(w, to, m, by_score, rate);
    back_to_pooled(w, m);
    learn_second(to, m, rate);
    learn_first(to, m, rate);
}

static void add_weights(weights_t *to, const weights_t *change) {
    float *all = (float *)to;
    const float *moves = (const float *)change;
    for (size_t i = 0; i < sizeof *to / sizeof *all; i++) all[i] += moves[i];
}

static void take_steps(float *const tensors[6], const lesson_t *lesson, const int32_t *draws, int64_t steps,
                       int64_t batch, float rate) {
    weights_t w __attribute__((aligned(64)));
    memory_t m __attribute__((aligned(64)));
    unpack(&w, tensors);
    memset(&m, 0, sizeof m);
    if (batch == 1) {
        for (int64_t step = 0; step < steps; step++) learn_sample(&w, &w, &m, lesson, draws[step], rate);
    } else {
        weights_t change __attribute__((aligned(64)));
        for (int64_t step = 0; step < steps; step++) {
            memset(&change, 0, sizeof change);
            for (int64_t b = 0; b < batch; b++)
                learn_sample(&w, &change, &m, lesson, draws[step * batch + b], rate / batch);
            add_weights(&w, &change);
        }
    }
    pack(&w, tensors);
}

/* SGD with distillation: a step for each row of draws [steps, batch]; those from sets[0].count on
 * are of sets[1]. The loss is the mean over the batch and adds offset [L], if not NULL, to scores.
 * Returns 0. */
int train(float *const tensors[6], const samples_t *sets, const float *teacher, const float *offset,
          const int32_t *draws, int64_t steps, int64_t batch, float rate, float beta,
          float *sums, float *counts) {
    const lesson_t lesson = {sets, teacher, offset, beta, sums, counts, NULL};
    take_steps(tensors, &lesson, draws, steps, batch, rate);
    return 0;
}

/* The same with numbers as targets: teacher and sums are [bins, L], counts [bins]. Returns 0. */
int train_numbers(float *const tensors[6], const samples_t *sets, const float *teacher,
                  const numbers_t *numbers, const int32_t *draws, int64_t steps, int64_t batch, float rate,
                  float beta, float *sums, float *counts) {
    const lesson_t lesson = {sets, teacher, NULL, beta, sums, counts, numbers};
    take_steps(tensors, &lesson, draws, steps, batch, rate);
    return 0;
}

/* How many of the images get the label that `labels` says. */
int64_t count_correct(float *const tensors[6], const void *images, int floats, const int32_t *labels,
                      int64_t count) {
    weights_t w __attribute__((aligned(64)));
    memory_t m __attribute__((aligned(64)));
    vec features[IMAGES][VECTORS] = {};
    int64_t correct = 0;
    unpack(&w, tensors);
    memset(&m, 0, sizeof m);
    for (int64_t n = 0; n < count; n += IMAGES) {
        const int some = count - n < IMAGES ? count - n : IMAGES;
        float scores[IMAGES][LABELS];
        for (int i = 0; i < some; i++) {
            read_image(&m, images, floats, n + i);
            convolve_and_pool(&w, &m, 0);
            convolve(&w, &m, features[i]);
        }
        score(&w, IMAGES, features, scores);
        for (int i = 0; i < some; i++) {
            int best = 0;
            for (int l = 1; l < LABELS; l++)
                if (scores[i][l] > scores[i][best]) best = l;
            correct += best == labels[n + i];
        }
    }
    return correct;
}
