/* Random choices and the Hadamard transform of a rotated update.
 *
 * Draws what NumPy's Generator draws with `permutation` and with `integers` of two values from a
 * PCG64, and adds in the order of the NumPy code: both give the same bits.
 */
#include <math.h>
#include <stdint.h>

typedef unsigned __int128 uint128_t;
#define MULTIPLIER (((uint128_t)0x2360ed051fc65da4 << 64) + 0x4385df649fccf645)

/* PCG64, that is PCG-XSL-RR 128/64 (O'Neill 2014), whose draws are used in two halves. */
typedef struct {
    uint128_t state, increment;
    uint32_t upper;
    int has_upper;
} pcg64_t;

static inline uint32_t next_half(pcg64_t *from) {
    from->has_upper = !from->has_upper;
    if (!from->has_upper) return from->upper;
    from->state = from->state * MULTIPLIER + from->increment;
    const uint64_t mixed = (uint64_t)(from->state >> 64) ^ (uint64_t)from->state;
    const unsigned turn = from->state >> 122;
    const uint64_t both = mixed >> turn | mixed << (-turn & 63);
    from->upper = both >> 32;
    return both;
}

/* Fisher and Yates, from the last place down. The place to swap with has the drawn bits under a
 * mask; one beyond the last place is drawn again. Every draw is written, and kept by moving on to
 * the next place: the processor need not guess which ones are.
 */
static void permutation(pcg64_t *from, int64_t size, int32_t *scratch, int32_t *places) {
    pcg64_t own = *from; /* which no write to `scratch` can change */
    int64_t last = size - 1;
    for (uint32_t mask = ~(uint32_t)0; mask; mask /= 2)
        for (const int64_t half = mask / 2; last > half;) {
            const uint32_t other = next_half(&own) & mask;
            scratch[last] = other;
            last -= other <= last;
        }
    *from = own;
    for (int64_t i = 0; i < size; i++) places[i] = i;
    for (int64_t i = size - 1; i > 0; i--) {
        const int32_t other = scratch[i], place = places[i];
        places[i] = places[other], places[other] = place;
    }
}

/* -1 and 1, by the highest bit of each byte. */
static void draw_signs(pcg64_t *from, int64_t size, float *signs) {
    for (int64_t start = 0; start < size; start += 4) {
        const uint32_t drawn = next_half(from);
        const int64_t count = size - start < 4 ? size - start : 4;
        for (int64_t i = 0; i < count; i++) signs[start + i] = 1 - (int32_t)(drawn >> (8 * i + 6) & 2);
    }
}

/* Everything that is random in an upload. `numbers` are state and increment, the upper halves first. */
void draw(const uint64_t *numbers, int64_t size, int32_t *scratch, int32_t *places, float *signs, int32_t *dealt) {
    pcg64_t from = {(uint128_t)numbers[0] << 64 | numbers[1], (uint128_t)numbers[2] << 64 | numbers[3], 0, 0};
    permutation(&from, size, scratch, places);
    draw_signs(&from, size, signs);
    permutation(&from, size, scratch, dealt);
}

/* Orthonormal. Each level adds and subtracts the halves of rows, which are the rows of the next. */
static void hadamard(float *row, int64_t size) {
    int64_t half = size / 2;
    for (; half > 1; half /= 4) { /* two levels at once */
        const int64_t step = half / 2;
        for (int64_t start = 0; start < size; start += 2 * half) {
            float *restrict a = row + start, *restrict b = a + step;
            float *restrict c = a + half, *restrict d = c + step;
            for (int64_t i = 0; i < step; i++) {
                const float ac = a[i] + c[i], bd = b[i] + d[i];
                const float a_c = a[i] - c[i], b_d = b[i] - d[i];
                a[i] = ac + bd, b[i] = ac - bd, c[i] = a_c + b_d, d[i] = a_c - b_d;
            }
        }
    }
    if (half == 1)
        for (int64_t i = 0; i < size; i += 2) {
            const float low = row[i], high = row[i + 1];
            row[i] = low + high, row[i + 1] = low - high;
        }
    const float scale = 1 / sqrt(size);
    for (int64_t i = 0; i < size; i++) row[i] *= scale;
}

/* Each block of a power of two, the largest first. */
static void in_blocks(float *row, int64_t size) {
    for (int64_t block = (int64_t)1 << 62; block; block /= 2)
        if (size & block) hadamard(row, block), row += block;
}

static void forward(
    const float *vector, const int32_t *places, const float *signs, int64_t size, float *scratch, float *turned
) {
    for (int64_t i = 0; i < size; i++) scratch[i] = vector[i] * signs[i];
    for (int64_t i = 0; i < size; i++) turned[i] = scratch[places[i]];
    in_blocks(turned, size);
}

/* `turned` is used up. */
static void backward(float *turned, const int32_t *places, const float *signs, int64_t size, float *vector) {
    in_blocks(turned, size);
    for (int64_t i = 0; i < size; i++) vector[places[i]] = turned[i];
    for (int64_t i = 0; i < size; i++) vector[i] *= signs[i];
}

/* Which of a group of places has the largest magnitude; of equal ones the first. */
static int64_t largest(const float *turned, const int32_t *places, int64_t length) {
    int64_t best = 0;
    float most = fabsf(turned[places[0]]);
    for (int64_t i = 1; i < length; i++) {
        const float here = fabsf(turned[places[i]]);
        if (here > most) most = here, best = i;
    }
    return best;
}

static void pick_one(
    const uint64_t *numbers, int64_t size, const float *vector, float deviation, int64_t groups,
    const int64_t *lengths, int32_t *scratch, int64_t *within, float *found
) {
    int32_t *places = scratch, *dealt = places + size, *others = dealt + size;
    float *signs = (float *)(others + size), *turned = signs + size;
    draw(numbers, size, others, places, signs, dealt);
    forward(vector, places, signs, size, (float *)others, turned);
    for (int64_t i = 0; i < size; i++) turned[i] /= deviation;
    for (int64_t group = 0; group < groups; dealt += lengths[group++]) {
        within[group] = largest(turned, dealt, lengths[group]);
        found[group] = turned[dealt[within[group]]];
    }
}

static void place_one(
    const uint64_t *numbers, int64_t size, int64_t groups, const int64_t *lengths, const int64_t *within,
    const float *levels, int32_t *scratch, float *vector
) {
    int32_t *places = scratch, *dealt = places + size, *others = dealt + size;
    float *signs = (float *)(others + size), *turned = signs + size;
    draw(numbers, size, others, places, signs, dealt);
    for (int64_t i = 0; i < size; i++) turned[i] = 0;
    for (int64_t group = 0; group < groups; dealt += lengths[group++])
        turned[dealt[within[group]]] = levels[group];
    backward(turned, places, signs, size, vector);
}

/* Rotates each of so many rows, in units of its deviation, and finds the largest of each group: where
 * it is in its group, and what it is. A row has four numbers of its generator. `scratch` has five
 * numbers for each coordinate of one row, as in `place`.
 */
void pick(
    int64_t rows, const uint64_t *numbers, int64_t size, const float *vectors, const float *deviations,
    int64_t groups, const int64_t *lengths, int32_t *scratch, int64_t *within, float *found
) {
    for (int64_t row = 0; row < rows; row++)
        pick_one(
            numbers + 4 * row, size, vectors + row * size, deviations[row], groups, lengths, scratch,
            within + row * groups, found + row * groups
        );
}

/* The rows whose rotated coordinates are `levels` where `pick` found them, and 0 elsewhere. */
void place(
    int64_t rows, const uint64_t *numbers, int64_t size, int64_t groups, const int64_t *lengths,
    const int64_t *within, const float *levels, int32_t *scratch, float *vectors
) {
    for (int64_t row = 0; row < rows; row++)
        place_one(
            numbers + 4 * row, size, groups, lengths, within + row * groups, levels + row * groups,
            scratch, vectors + row * size
        );
}
