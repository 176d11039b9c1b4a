/* Layers between convolutions, of one sample [pixels, channels]: values and gradients.
 *
 * `more`: the gradient is added to what is there. Include convolution.h first.
 */
#include <math.h>

#define PARTS 4 /* sums side by side, since an addition takes longer than a cycle */

/* Whole vectors of channels, and the channels left. */
#define WHOLE_VECTORS(CHANNELS) for (int64_t c = 0; c + LANES <= (CHANNELS); c += LANES)
#define REST(CHANNELS) for (int64_t c = (CHANNELS) / LANES * LANES; c < (CHANNELS); c++)

/* Zero where y is not above zero: ReLU, and its gradient. */
static void cut_off(int64_t count, float *values, const float *y) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) store(values + i, positive(load(values + i), load(y + i)));
    for (; i < count; i++) values[i] = y[i] <= 0 ? 0 : values[i];
}

/* sums += by over pixels, where `y`, if there is one, is above zero; elsewhere `by` becomes zero. */
static void add_pixels(int64_t pixels, int64_t channels, float *by, const float *y, float *sums) {
    WHOLE_VECTORS(channels) {
        vec s[PARTS] = {};
        for (int64_t p = 0, i = c; p < pixels; p++, i += channels) {
            vec back = load(by + i);
            if (y) store(by + i, back = positive(back, load(y + i)));
            s[p % PARTS] += back;
        }
        store(sums + c, load(sums + c) + ((s[0] + s[1]) + (s[2] + s[3])));
    }
    REST(channels) {
        for (int64_t p = 0, i = c; p < pixels; p++, i += channels) {
            if (y && y[i] <= 0) by[i] = 0;
            sums[c] += by[i];
        }
    }
}

static void add_or_copy(int64_t count, const float *from, int64_t more, float *to) {
    if (more)
        for (int64_t i = 0; i < count; i++) to[i] += from[i];
    else memcpy(to, from, count * sizeof(float));
}

static void add_and_clear(int64_t count, float *sums, float factor, float *to) {
    for (int64_t i = 0; i < count; i++) to[i] += factor * sums[i], sums[i] = 0;
}

static void add_values(int64_t count, const float *a, const float *b, int64_t relu, float *out) {
    for (int64_t i = 0; i < count; i++) out[i] = a[i] + b[i];
    if (relu) cut_off(count, out, out);
}

/* Group normalisation; size: pixels, channels, groups. Moments: the mean of each group, and one over its
 * deviation. */
static void normalise(const int64_t *size, double epsilon, const float *scale, const float *shift, const float *x,
                      int64_t relu, float *moments, float *y) {
    const int64_t pixels = size[0], channels = size[1], groups = size[2], own = channels / groups;
    float sums[channels], a[channels], b[channels];
    for (int64_t round = 0; round < 2; round++) { /* the mean, then the mean square about it */
        for (int64_t c = 0; c < channels; c++) a[c] = round ? moments[c / own] : 0, sums[c] = 0;
        WHOLE_VECTORS(channels) {
            vec s[PARTS] = {};
            const vec mean = load(a + c);
            for (int64_t p = 0, i = c; p < pixels; p++, i += channels) {
                const vec apart = load(x + i) - mean;
                s[p % PARTS] += round ? apart * apart : apart;
            }
            store(sums + c, (s[0] + s[1]) + (s[2] + s[3]));
        }
        REST(channels) {
            for (int64_t p = 0, i = c; p < pixels; p++, i += channels)
                sums[c] += round ? (x[i] - a[c]) * (x[i] - a[c]) : x[i];
        }
        for (int64_t g = 0; g < groups; g++) {
            float sum = 0;
            for (int64_t c = g * own; c < (g + 1) * own; c++) sum += sums[c];
            if (round) moments[groups + g] = 1 / sqrtf(sum / (own * pixels) + (float)epsilon);
            else moments[g] = sum / (own * pixels);
        }
    }
    for (int64_t c = 0; c < channels; c++) {
        a[c] = moments[groups + c / own] * (scale ? scale[c] : 1);
        b[c] = (shift ? shift[c] : 0) - moments[c / own] * a[c];
    }
    WHOLE_VECTORS(channels) {
        const vec factor = load(a + c), offset = load(b + c);
        for (int64_t p = 0, i = c; p < pixels; p++, i += channels) {
            const vec value = load(x + i) * factor + offset;
            store(y + i, relu ? positive(value, value) : value);
        }
    }
    REST(channels) {
        for (int64_t p = 0, i = c; p < pixels; p++, i += channels) {
            const float value = x[i] * a[c] + b[c];
            y[i] = relu && value <= 0 ? 0 : value;
        }
    }
}

/* Adds to by_scale and by_shift; y, if ReLU followed. */
static void normalise_back(const int64_t *size, const float *scale, const float *x, const float *moments, const float *y,
                           float *by, float *by_scale, float *by_shift, int64_t more, float *to) {
    const int64_t pixels = size[0], channels = size[1], groups = size[2], own = channels / groups;
    float shifts[channels], scales[channels], mean[channels], a[channels], b[channels], offset[channels];
    memset(shifts, 0, sizeof shifts);
    memset(scales, 0, sizeof scales);
    for (int64_t c = 0; c < channels; c++) mean[c] = moments[c / own];
    WHOLE_VECTORS(channels) {
        vec s[2] = {}, t[2] = {};
        const vec centre = load(mean + c);
        for (int64_t p = 0, i = c; p < pixels; p++, i += channels) {
            vec back = load(by + i);
            if (y) store(by + i, back = positive(back, load(y + i)));
            s[p % 2] += back, t[p % 2] += back * (load(x + i) - centre);
        }
        store(shifts + c, s[0] + s[1]), store(scales + c, t[0] + t[1]);
    }
    REST(channels) {
        for (int64_t p = 0, i = c; p < pixels; p++, i += channels) {
            if (y && y[i] <= 0) by[i] = 0;
            shifts[c] += by[i], scales[c] += by[i] * (x[i] - mean[c]);
        }
    }
    for (int64_t g = 0; g < groups; g++) {
        const float inverse = moments[groups + g], count = own * pixels;
        float first = 0, second = 0;
        for (int64_t c = g * own; c < (g + 1) * own; c++) {
            scales[c] *= inverse;
            by_scale[c] += scales[c], by_shift[c] += shifts[c];
            first += (scale ? scale[c] : 1) * shifts[c] / count, second += (scale ? scale[c] : 1) * scales[c] / count;
        }
        for (int64_t c = g * own; c < (g + 1) * own; c++) {
            a[c] = inverse * (scale ? scale[c] : 1), b[c] = -inverse * inverse * second;
            offset[c] = -inverse * first - b[c] * mean[c];
        }
    }
    WHOLE_VECTORS(channels) {
        const vec own_by = load(a + c), own_x = load(b + c), rest = load(offset + c);
        for (int64_t p = 0, i = c; p < pixels; p++, i += channels) {
            const vec back = load(by + i) * own_by + load(x + i) * own_x + rest;
            store(to + i, more ? load(to + i) + back : back);
        }
    }
    REST(channels) {
        for (int64_t p = 0, i = c; p < pixels; p++, i += channels)
            to[i] = (more ? to[i] : 0) + by[i] * a[c] + x[i] * b[c] + offset[c];
    }
}

/* Max-pooling; size: height, width, channels, those of the result, the window, its steps, and what is
 * missing before the first row and column. Of equal values the first gets the gradient. */
typedef struct {
    int64_t height, width, channels, out_height, out_width, rows, columns, down, right, above, before;
} pool_t;
INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Every result, at `o`, with the inputs that it sees in rows [top, bottom) and columns [left, end). */
#define WINDOWS(S)                                                                                 \
    for (int64_t oy = 0, o = 0; oy < (S)->out_height; oy++)                                        \
        for (int64_t ox = 0; ox < (S)->out_width; ox++, o += (S)->channels)
#define INPUTS(S)                                                                                  \
    for (int64_t iy = most(0, oy * (S)->down - (S)->above),                                        \
                 bottom = least((S)->height, oy * (S)->down - (S)->above + (S)->rows);             \
         iy < bottom; iy++)                                                                        \
        for (int64_t ix = most(0, ox * (S)->right - (S)->before),                                  \
                     end = least((S)->width, ox * (S)->right - (S)->before + (S)->columns),        \
                     i = (iy * (S)->width + ix) * (S)->channels + c;                               \
             ix < end; ix++, i += (S)->channels)

static void max_pool(const int64_t *size, const float *x, float *out) {
    const pool_t *s = (const pool_t *)size;
    WINDOWS(s) {
        WHOLE_VECTORS(s->channels) {
            vec best = (vec){} - INFINITY;
            INPUTS(s) {
                const vec v = load(x + i);
                const mask up = v > best;
                best = (vec)(((mask)v & up) | ((mask)best & ~up));
            }
            store(out + o + c, best);
        }
        REST(s->channels) {
            float best = -INFINITY;
            INPUTS(s) best = x[i] > best ? x[i] : best;
            out[o + c] = best;
        }
    }
}

static void max_pool_back(const int64_t *size, const float *x, const float *out, const float *by, int64_t more, float *to) {
    const pool_t *s = (const pool_t *)size;
    const int64_t apart = s->down == s->rows && s->right == s->columns && !s->above && !s->before;
    const int64_t whole = apart && s->height == s->out_height * s->rows && s->width == s->out_width * s->columns;
    const int64_t adds = more || !apart;
    if (!more && !whole) memset(to, 0, s->height * s->width * s->channels * sizeof(float));
    WINDOWS(s) {
        WHOLE_VECTORS(s->channels) {
            const vec best = load(out + o + c), back = load(by + o + c);
            mask left = best == best;
            INPUTS(s) {
                const mask hit = (load(x + i) == best) & left;
                const vec got = (vec)((mask)back & hit);
                left &= ~hit;
                store(to + i, adds ? load(to + i) + got : got);
            }
        }
        REST(s->channels) {
            int left = 1;
            INPUTS(s) {
                const int hit = left && x[i] == out[o + c];
                left &= !hit;
                to[i] = (adds ? to[i] : 0) + (hit ? by[o + c] : 0);
            }
        }
    }
}

/* The mean over pixels; size: pixels, channels. */
static void mean_pixels(const int64_t *size, const float *x, float *out) {
    memset(out, 0, size[1] * sizeof(float));
    for (int64_t p = 0; p < size[0]; p++)
        for (int64_t c = 0; c < size[1]; c++) out[c] += x[p * size[1] + c];
    for (int64_t c = 0; c < size[1]; c++) out[c] /= size[0];
}

static void mean_pixels_back(const int64_t *size, const float *by, int64_t more, float *to) {
    for (int64_t p = 0; p < size[0]; p++)
        for (int64_t c = 0; c < size[1]; c++)
            to[p * size[1] + c] = (more ? to[p * size[1] + c] : 0) + by[c] / size[0];
}

/* [pixels, channels] -> [channels, pixels]. */
static void channels_first(const int64_t *size, const float *x, float *out) {
    for (int64_t c = 0; c < size[1]; c++)
        for (int64_t p = 0; p < size[0]; p++) out[c * size[0] + p] = x[p * size[1] + c];
}

static void channels_first_back(const int64_t *size, const float *by, int64_t more, float *to) {
    for (int64_t p = 0; p < size[0]; p++)
        for (int64_t c = 0; c < size[1]; c++)
            to[p * size[1] + c] = (more ? to[p * size[1] + c] : 0) + by[c * size[0] + p];
}
