/* Samples, and what a step learns from one: shared by the kernels of fully connected and of layered networks. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const void *inputs;
    const float *targets;
    int64_t count;
    int32_t floats;
} samples_t;

static inline void add(float *restrict to, float factor, const float *restrict what, int size) {
    for (int i = 0; i < size; i++) to[i] += factor * what[i];
}

static void softmax(int labels, const float *scores, float *outputs) {
    float largest = scores[0], total = 0;
    for (int l = 1; l < labels; l++) largest = scores[l] > largest ? scores[l] : largest;
    for (int l = 0; l < labels; l++) total += outputs[l] = expf(scores[l] - largest);
    for (int l = 0; l < labels; l++) outputs[l] /= total;
}

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
static void study_numbers(int labels, const numbers_t *numbers, const float *outputs, const float *target,
                          const float *teacher, float beta, float *sums, float *counts, float *by_output) {
    int bin = 0, known = 0;
    for (int e = 0; e < numbers->edge_count; e++) bin += target[0] >= numbers->edges[e];
    const float *taught = teacher + bin * labels;
    counts[bin] += 1;
    for (int l = 0; l < labels; l++) {
        known |= taught[l] != 0;
        sums[bin * labels + l] += outputs[l];
    }
    for (int l = 0; l < labels; l++) {
        const float own = slope(numbers->form, outputs[l] - target[l]);
        const float other = known ? beta * slope(numbers->form, outputs[l] - taught[l]) : 0;
        by_output[l] = (own + other) / labels;
    }
}

/* Outputs, sums and the gradient by scores of one sample with a label. */
static void study_label(int labels, float *scores, const float *label, const float *teacher, const float *offset,
                        float beta, float *sums, float *counts, float *by_score) {
    float outputs[labels], goal[labels], mass = 0;
    softmax(labels, scores, outputs);
    memcpy(goal, label, sizeof goal);
    for (int l = 0; l < labels; l++) {
        if (label[l] == 0) continue;
        counts[l] += label[l];
        add(goal, beta * label[l], teacher + l * labels, labels);
        add(sums + l * labels, label[l], outputs, labels);
    }
    if (offset) {
        for (int l = 0; l < labels; l++) scores[l] += offset[l];
        softmax(labels, scores, outputs);
    }
    for (int l = 0; l < labels; l++) mass += goal[l];
    for (int l = 0; l < labels; l++) by_score[l] = mass * outputs[l] - goal[l];
}

/* What all steps of a call have in common; sums and counts are added to. */
typedef struct {
    const numbers_t *numbers; /* NULL: targets are labels */
    const float *teacher, *offset;
    float beta, *sums, *counts;
} lesson_t;

/* Outputs, sums, and the gradient by the scores of one sample. */
static void study_scores(int labels, const lesson_t *lesson, float *scores, const float *target, float *by_score) {
    if (lesson->numbers)
        study_numbers(labels, lesson->numbers, scores, target, lesson->teacher, lesson->beta, lesson->sums,
                      lesson->counts, by_score);
    else
        study_label(labels, scores, target, lesson->teacher, lesson->offset, lesson->beta, lesson->sums,
                    lesson->counts, by_score);
}
