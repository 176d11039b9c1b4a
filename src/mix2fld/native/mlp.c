/* SGD and evaluation of a network of two linear layers with ReLU between them, or of one alone.
 *
 * A step takes a batch: all samples are read with the weights before the step, which then moves by
 * the mean of their gradients. Sums over inputs are kept in vectors of LANES floats.
 *
 * LANES comes from the command line of the compiler. The other sizes are those of the one network for
 * which a copy of the library is loaded.
 */
#include <stdlib.h>

#include "lesson.h"

static int INPUTS, CHANNELS, HIDDEN, LABELS;
#define PLACES (INPUTS / CHANNELS)
/* The last layer: its first tensor, and how many values it sees; without hidden values, the inputs. */
#define LAST (HIDDEN ? 2 : 0)
#define SEEN (HIDDEN ? HIDDEN : INPUTS)
#define SUMS 4 /* that are added up side by side */

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4)));

/* What a step keeps of one sample of its batch. */
typedef struct {
    float *input, *hidden, *by_hidden, *by_score;
} sample_t;

void set_sizes(int inputs, int channels, int hidden, int labels) {
    INPUTS = inputs, CHANNELS = channels, HIDDEN = hidden, LABELS = labels;
}

#define KEPT (INPUTS + 2 * HIDDEN + LABELS) /* floats of a sample */

static inline sample_t sample_at(float *memory, int64_t which) {
    float *input = memory + which * KEPT, *hidden = input + INPUTS;
    return (sample_t){input, hidden, hidden + HIDDEN, hidden + 2 * HIDDEN};
}

static inline vec load(const float *from) { return *(const loose *)from; }

static inline float dot(const float *a, const float *b, int size) {
    vec sums[SUMS] = {};
    int at = 0;
    for (; at + SUMS * LANES <= size; at += SUMS * LANES)
        for (int s = 0; s < SUMS; s++) sums[s] += load(a + at + s * LANES) * load(b + at + s * LANES);
    for (; at + LANES <= size; at += LANES) sums[0] += load(a + at) * load(b + at);
    const vec all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    float total = 0;
    for (int lane = 0; lane < LANES; lane++) total += all[lane];
    for (; at < size; at++) total += a[at] * b[at];
    return total;
}

/* Features are counted channel by channel, whatever the order in which a sample is stored. */
#define READ_INPUT(TYPE, SCALE)                                                                    \
    do {                                                                                           \
        const TYPE *from = (const TYPE *)inputs + which * INPUTS;                                  \
        for (int c = 0; c < CHANNELS; c++)                                                         \
            for (int p = 0; p < PLACES; p++) to[c * PLACES + p] = from[p * CHANNELS + c] * (SCALE); \
    } while (0)

static void read_input(float *to, const void *inputs, int floats, int64_t which) {
    if (floats) READ_INPUT(float, 1.0f);
    else READ_INPUT(uint8_t, 1.0f / 255);
}

static void forward(float *const *tensors, const float *input, float *hidden, float *scores) {
    for (int h = 0; h < HIDDEN; h++) {
        const float sum = tensors[0][h] + dot(tensors[1] + h * INPUTS, input, INPUTS);
        hidden[h] = sum > 0 ? sum : 0;
    }
    const float *seen = HIDDEN ? hidden : input;
    for (int l = 0; l < LABELS; l++)
        scores[l] = tensors[LAST][l] + dot(tensors[LAST + 1] + l * SEEN, seen, SEEN);
}

/* Scores, and the gradients by scores and hidden values of one sample. */
static void study(float *const *tensors, sample_t *s, const float *target, const lesson_t *lesson) {
    float scores[LABELS];
    forward(tensors, s->input, s->hidden, scores);
    study_scores(LABELS, lesson, scores, target, s->by_score);
    memset(s->by_hidden, 0, HIDDEN * sizeof *s->by_hidden);
    for (int l = 0; l < LABELS; l++)
        add(s->by_hidden, s->by_score[l], tensors[LAST + 1] + l * SEEN, HIDDEN);
    for (int h = 0; h < HIDDEN; h++) s->by_hidden[h] = s->hidden[h] > 0 ? s->by_hidden[h] : 0;
}

static void learn(float *const *tensors, const sample_t *s, float rate) {
    for (int h = 0; h < HIDDEN; h++) {
        if (s->by_hidden[h] == 0) continue;
        tensors[0][h] -= rate * s->by_hidden[h];
        add(tensors[1] + h * INPUTS, -rate * s->by_hidden[h], s->input, INPUTS);
    }
    const float *seen = HIDDEN ? s->hidden : s->input;
    for (int l = 0; l < LABELS; l++) {
        tensors[LAST][l] -= rate * s->by_score[l];
        add(tensors[LAST + 1] + l * SEEN, -rate * s->by_score[l], seen, SEEN);
    }
}

static int take_steps(float *const *tensors, const samples_t *sets, const lesson_t *lesson,
                      const int32_t *draws, int64_t steps, int64_t batch, float rate) {
    float *memory = malloc(batch * KEPT * sizeof *memory);
    if (!memory) return 1;
    for (int64_t step = 0; step < steps; step++) {
        for (int64_t b = 0; b < batch; b++) {
            const int64_t drawn = draws[step * batch + b];
            const samples_t *set = sets + (drawn >= sets->count);
            const int64_t which = drawn - (set == sets ? 0 : sets->count);
            sample_t sample = sample_at(memory, b);
            read_input(sample.input, set->inputs, set->floats, which);
            study(tensors, &sample, set->targets + which * LABELS, lesson);
        }
        for (int64_t b = 0; b < batch; b++) {
            const sample_t sample = sample_at(memory, b);
            learn(tensors, &sample, rate / batch);
        }
    }
    free(memory);
    return 0;
}

/* SGD with distillation: a step for each row of draws [steps, batch]; those from sets[0].count on
 * are of sets[1]. The loss adds offset [L], if not NULL, to the scores. sums [L,L] and counts [L]
 * are added to. Returns 0, or 1 if there is no memory for a batch. */
int train(float *const *tensors, const samples_t *sets, const float *teacher, const float *offset,
          const int32_t *draws, int64_t steps, int64_t batch, float rate, float beta, float *sums,
          float *counts) {
    const lesson_t lesson = {NULL, teacher, offset, beta, sums, counts};
    return take_steps(tensors, sets, &lesson, draws, steps, batch, rate);
}

/* The same with numbers as targets: teacher and sums are [bins, L], counts [bins]. */
int train_numbers(float *const *tensors, const samples_t *sets, const float *teacher,
                  const numbers_t *numbers, const int32_t *draws, int64_t steps, int64_t batch,
                  float rate, float beta, float *sums, float *counts) {
    const lesson_t lesson = {numbers, teacher, NULL, beta, sums, counts};
    return take_steps(tensors, sets, &lesson, draws, steps, batch, rate);
}

/* How many of the samples get the label that `labels` says. */
int64_t count_correct(float *const *tensors, const void *inputs, int floats,
                      const int32_t *labels, int64_t count) {
    float input[INPUTS], hidden[HIDDEN + 1], scores[LABELS];
    int64_t correct = 0;
    for (int64_t n = 0; n < count; n++) {
        int best = 0;
        read_input(input, inputs, floats, n);
        forward(tensors, input, hidden, scores);
        for (int l = 1; l < LABELS; l++)
            if (scores[l] > scores[best]) best = l;
        correct += best == labels[n];
    }
    return correct;
}
