/* The three products of a linear layer, of a batch with a matrix in rows of `columns` floats.
 *
 * A batch is rows of floats a stride apart. The matrix is read where it lies: its rows in order, blocks
 * of them by as many samples as fill the registers. Include convolution.h first.
 */
#define DEPTH 16 /* rows of the matrix that stay in the first cache while all samples meet them */
#if LANES == 16
#define WIDE 4 /* vectors of a block, by at most 5 samples */
#else
#define WIDE 2
#endif
#define SAMPLES 5

typedef struct {
    float *at;
    int64_t stride;
} rows_t;

INLINE vec load_part(const float *from, int64_t count) {
    float all[LANES] = {};
    memcpy(all, from, count * sizeof(float));
    return load(all);
}

INLINE void store_part(float *to, vec value, int64_t count) { memcpy(to, &value, count * sizeof(float)); }

INLINE float total(vec value) {
    float parts[LANES];
    store(parts, value);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) parts[i] += parts[i + half];
    return parts[0];
}

/* R samples by V vectors of columns, the last one perhaps in part. */
INLINE void mix_block(const int V, const int R, const float *matrix, int64_t columns, int64_t depth, rows_t x,
                      rows_t y, int64_t part) {
    vec s[SAMPLES * WIDE];
    EACH for (int i = 0; i < R * V; i++) {
        const float *from = y.at + i / V * y.stride + i % V * LANES;
        s[i] = part ? load_part(from, part) : load(from);
    }
    for (int64_t k = 0; k < depth; k++, matrix += columns) {
        vec w[WIDE];
        EACH for (int v = 0; v < V; v++) w[v] = part ? load_part(matrix, part) : load(matrix + v * LANES);
        EACH for (int r = 0; r < R; r++) {
            const float factor = x.at[r * x.stride + k];
            EACH for (int v = 0; v < V; v++) s[r * V + v] += factor * w[v];
        }
    }
    EACH for (int i = 0; i < R * V; i++) {
        float *to = y.at + i / V * y.stride + i % V * LANES;
        if (part) store_part(to, s[i], part);
        else store(to, s[i]);
    }
}

INLINE void mix_samples(const int R, const float *matrix, int64_t columns, int64_t depth, rows_t x, rows_t y) {
    int64_t c = 0;
    for (; c + WIDE * LANES <= columns; c += WIDE * LANES)
        mix_block(WIDE, R, matrix + c, columns, depth, x, (rows_t){y.at + c, y.stride}, 0);
    for (; c + LANES <= columns; c += LANES)
        mix_block(1, R, matrix + c, columns, depth, x, (rows_t){y.at + c, y.stride}, 0);
    if (c < columns) mix_block(1, R, matrix + c, columns, depth, x, (rows_t){y.at + c, y.stride}, columns - c);
}

/* Products of R samples with K rows at once. */
INLINE void dot_block(const int K, const int R, const float *matrix, int64_t columns, rows_t x, rows_t y,
                      const float *bias) {
    vec s[SAMPLES * 4];
    EACH for (int i = 0; i < R * K; i++) s[i] = (vec){};
    int64_t c = 0;
    for (; c + LANES <= columns; c += LANES) {
        vec w[4];
        EACH for (int k = 0; k < K; k++) w[k] = load(matrix + k * columns + c);
        EACH for (int r = 0; r < R; r++) {
            const vec input = load(x.at + r * x.stride + c);
            EACH for (int k = 0; k < K; k++) s[r * K + k] += input * w[k];
        }
    }
    EACH for (int r = 0; r < R; r++)
        EACH for (int k = 0; k < K; k++) {
            float sum = total(s[r * K + k]);
            for (int64_t i = c; i < columns; i++) sum += x.at[r * x.stride + i] * matrix[k * columns + i];
            y.at[r * y.stride + k] = sum + (bias ? bias[k] : 0);
        }
}

#if LANES == 16
#define DOTS 4 /* rows at once */
#else
#define DOTS 2
#endif

INLINE void dot_samples(const int R, const float *matrix, int64_t rows, int64_t columns, rows_t x, rows_t y,
                        const float *bias) {
    int64_t k = 0;
    for (; k + DOTS <= rows; k += DOTS)
        dot_block(DOTS, R, matrix + k * columns, columns, x, (rows_t){y.at + k, y.stride}, bias ? bias + k : bias);
    for (; k < rows; k++)
        dot_block(1, R, matrix + k * columns, columns, x, (rows_t){y.at + k, y.stride}, bias ? bias + k : bias);
}

#define FOR_SAMPLES(COUNT, CALL)                                                                   \
    for (int64_t first_ = 0, R_; first_ < (COUNT); first_ += R_) {                                 \
        R_ = least(share(COUNT, SAMPLES), (COUNT)-first_);                                         \
        switch (R_) {                                                                              \
            case 1: { CALL(1); break; }                                                            \
            case 2: { CALL(2); break; }                                                            \
            case 3: { CALL(3); break; }                                                            \
            case 4: { CALL(4); break; }                                                            \
            default: { CALL(5); break; }                                                           \
        }                                                                                          \
    }
#define ROWS_FROM(ROWS) ((rows_t){(ROWS).at + first_ * (ROWS).stride, (ROWS).stride})

/* y += x matrix: [batch, rows] to [batch, columns]. */
static void add_mixtures(const float *matrix, int64_t rows, int64_t columns, int64_t batch, rows_t x, rows_t y) {
    for (int64_t k = 0; k < rows; k += DEPTH) {
        const int64_t depth = least(DEPTH, rows - k);
        const rows_t from = {x.at + k, x.stride};
#define CALL(R) mix_samples(R, matrix + k * columns, columns, depth, ROWS_FROM(from), ROWS_FROM(y))
        FOR_SAMPLES(batch, CALL)
#undef CALL
    }
}

/* y = x matrix^T + bias: [batch, columns] to [batch, rows]. */
static void dot_products(const float *matrix, int64_t rows, int64_t columns, int64_t batch, rows_t x, rows_t y,
                         const float *bias) {
    for (int64_t k = 0; k < rows; k += DEPTH) {
        const int64_t depth = least(DEPTH, rows - k);
        const rows_t to = {y.at + k, y.stride};
#define CALL(R) dot_samples(R, matrix + k * columns, depth, columns, ROWS_FROM(x), ROWS_FROM(to), bias ? bias + k : bias)
        FOR_SAMPLES(batch, CALL)
#undef CALL
    }
}

#if LANES == 16
#define OUTER_ROWS 4
#else
#define OUTER_ROWS 2
#endif

/* K rows of the matrix, from row k on. */
INLINE void outer_rows(const int K, float *matrix, int64_t columns, int64_t batch, float factor, rows_t a, rows_t b) {
    int64_t c = 0;
#define OUTER(V)                                                                                   \
    for (; c + V * LANES <= columns; c += V * LANES) {                                             \
        vec s[K * V];                                                                              \
        EACH for (int i = 0; i < K * V; i++) s[i] = (vec){};                                       \
        for (int64_t n = 0; n < batch; n++) {                                                      \
            const float *by = b.at + n * b.stride + c, *x = a.at + n * a.stride;                   \
            vec back[V];                                                                           \
            EACH for (int v = 0; v < V; v++) back[v] = load(by + v * LANES);                       \
            EACH for (int k = 0; k < K; k++)                                                       \
                EACH for (int v = 0; v < V; v++) s[k * V + v] += x[k] * back[v];                   \
        }                                                                                          \
        EACH for (int i = 0; i < K * V; i++) {                                                     \
            float *to = matrix + i / V * columns + c + i % V * LANES;                              \
            store(to, load(to) + factor * s[i]);                                                   \
        }                                                                                          \
    }
    OUTER(4)
    OUTER(1)
#undef OUTER
    for (; c < columns; c++)
        for (int k = 0; k < K; k++) {
            float sum = 0;
            for (int64_t n = 0; n < batch; n++) sum += a.at[n * a.stride + k] * b.at[n * b.stride + c];
            matrix[k * columns + c] += factor * sum;
        }
}

/* matrix += factor a^T b, with a [batch, rows] and b [batch, columns]: each row is read and written once. */
static void add_outer(float *matrix, int64_t rows, int64_t columns, int64_t batch, float factor, rows_t a, rows_t b) {
    int64_t k = 0;
    for (; k + OUTER_ROWS <= rows; k += OUTER_ROWS)
        outer_rows(OUTER_ROWS, matrix + k * columns, columns, batch, factor, (rows_t){a.at + k, a.stride}, b);
    for (; k < rows; k++) outer_rows(1, matrix + k * columns, columns, batch, factor, (rows_t){a.at + k, a.stride}, b);
}
