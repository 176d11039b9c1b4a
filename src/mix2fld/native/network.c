/* SGD and evaluation of a network of layers, as a program that the caller makes of a model.
 *
 * A program is a list of operations on values: arrays of one sample each, [height, width, channels] or
 * [features]. Those before the first linear layer, the trunk, walk through sample after sample, so that
 * what they read is still in the cache; linear layers, the head, take the whole batch, so that a matrix
 * is read once. A step packs its kernels once, keeps the gradients of small weights, and adds those of
 * a linear layer to its matrix where they arise.
 *
 * LANES comes from the command line of the compiler.
 */
#include "convolution.h"
#include "dense.h"
#include "lesson.h"
#include "layers.h"

enum { CONVOLUTION, LINEAR, NORM, POOL, ADD, MEAN, ORDER };

typedef struct {
    int64_t kind, in, other, out;  /* values; other: the second of a sum, moments of a normalisation */
    int64_t relu, more, more_other; /* ReLU follows; whether later operations read its inputs, too */
    int64_t weight, bias;          /* numbers of weights; -1: none */
    int64_t size[12];              /* as its kind says */
    int64_t plan, back;            /* of a convolution and its gradient by inputs: where they begin */
    double epsilon;
} op_t;

/* What a call keeps for an operation. */
typedef struct {
    plan_t plan, back;
    float *packed, *packed_back, *frame, *frame_back, *wide; /* of a convolution */
    float *bias, *sums, *bias_sums;                          /* by_weight and by_bias of small weights */
} kept_t;

typedef struct {
    int64_t values, ops, head, labels, floats; /* head: its first operation; floats of a sample */
    int64_t trunk_floats, head_floats;         /* of all values of a sample */
    const int64_t *at, *in_head;               /* where each value is, and in which of the two */
    const op_t *op;
    float *const *weights;
    kept_t *kept;
    float *trunk, *trunk_by, *heads, *heads_by; /* values and gradients by them */
    int64_t slots;                              /* samples whose trunk is kept */
    float *nothing;
    char *memory;
    int64_t used;
} net_t;

static void *take(net_t *net, int64_t bytes) {
    void *place = net->memory ? net->memory + net->used : NULL;
    net->used += (bytes + 63) / 64 * 64;
    return place;
}
static float *take_floats(net_t *net, int64_t floats) { return take(net, (floats + 4 * LANES) * sizeof(float)); }

static net_t read_program(const int64_t *numbers, float *const *weights) {
    net_t net = {.values = numbers[0], .ops = numbers[1], .head = numbers[2], .labels = numbers[3], .floats = numbers[4],
                 .trunk_floats = numbers[5], .head_floats = numbers[6], .weights = weights};
    net.at = numbers + 7, net.in_head = net.at + net.values;
    net.op = (const op_t *)(net.in_head + net.values);
    return net;
}

/* Takes memory, or says how much is needed as long as there is none. */
static void lay_out(net_t *net, const int64_t *numbers, int64_t batch, int64_t slots, int trains) {
    int64_t most = 0;
    net->used = 0, net->slots = slots;
    net->kept = take(net, net->ops * sizeof(kept_t));
    for (int64_t i = 0; i < net->ops; i++) {
        const op_t *op = net->op + i;
        kept_t kept = {};
        if (op->kind == CONVOLUTION) {
            kept.plan = read_plan(numbers + op->plan), kept.back = read_plan(numbers + op->back);
            const int64_t outputs = kept.plan.groups * kept.plan.outputs, inputs = kept.plan.groups * kept.plan.channels;
            most = most > inputs ? most : inputs, most = most > outputs ? most : outputs;
            kept.packed = take_floats(net, packed_size(&kept.plan));
            kept.frame = take_floats(net, frame_size(&kept.plan));
            kept.bias = take_floats(net, outputs);
            if (trains) {
                kept.packed_back = take_floats(net, packed_size(&kept.back));
                kept.frame_back = take_floats(net, frame_size(&kept.back));
                kept.wide = take_floats(net, wide_size(&kept.plan));
                kept.sums = take_floats(net, sums_size(&kept.plan));
                kept.bias_sums = take_floats(net, outputs);
            }
        } else if (trains) {
            kept.sums = take_floats(net, op->size[1]);
            kept.bias_sums = take_floats(net, op->size[1]);
        }
        if (net->memory) net->kept[i] = kept;
    }
    net->nothing = take_floats(net, most);
    net->trunk = take_floats(net, slots * net->trunk_floats);
    net->heads = take_floats(net, batch * net->head_floats);
    if (trains) {
        net->trunk_by = take_floats(net, net->trunk_floats);
        net->heads_by = take_floats(net, batch * net->head_floats);
    }
}

static int prepare(net_t *net, const int64_t *numbers, int64_t batch, int64_t slots, int trains) {
    lay_out(net, numbers, batch, slots, trains);
    const int64_t bytes = net->used;
    net->memory = aligned_alloc(64, bytes);
    if (!net->memory) return 1;
    memset(net->memory, 0, bytes); /* the borders of frames are read and never written */
    lay_out(net, numbers, batch, slots, trains);
    return 0;
}

static float *value(const net_t *net, int64_t v, int64_t sample) {
    return net->in_head[v] ? net->heads + sample * net->head_floats + net->at[v]
                           : net->trunk + sample % net->slots * net->trunk_floats + net->at[v];
}
static float *gradient(const net_t *net, int64_t v, int64_t sample) {
    return net->in_head[v] ? net->heads_by + sample * net->head_floats + net->at[v] : net->trunk_by + net->at[v];
}

static void pack_kernels(net_t *net, int trains) {
    for (int64_t i = 0; i < net->ops; i++) {
        const op_t *op = net->op + i;
        kept_t *k = net->kept + i;
        if (op->kind != CONVOLUTION) continue;
        pack(&k->plan, net->weights[op->weight], 0, k->packed);
        if (trains && op->in) pack(&k->back, net->weights[op->weight], 1, k->packed_back);
        if (op->bias >= 0) memcpy(k->bias, net->weights[op->bias], k->plan.groups * k->plan.outputs * sizeof(float));
    }
}

/* Operations of the trunk, and those of the head but linear layers, on one sample. */
static void forward_one(net_t *net, int64_t i, int64_t sample) {
    const op_t *op = net->op + i;
    const kept_t *k = net->kept + i;
    const float *x = value(net, op->in, sample);
    float *y = value(net, op->out, sample);
    switch (op->kind) {
        case CONVOLUTION: convolve_image(&k->plan, x, k->packed, k->frame, k->bias, op->relu, y); break;
        case NORM:
            normalise(op->size, op->epsilon, op->weight < 0 ? NULL : net->weights[op->weight],
                      op->bias < 0 ? NULL : net->weights[op->bias], x, op->relu, value(net, op->other, sample), y);
            break;
        case POOL: max_pool(op->size, x, y); break;
        case ADD: add_values(op->size[0], x, value(net, op->other, sample), op->relu, y); break;
        case MEAN: mean_pixels(op->size, x, y); break;
        case ORDER: channels_first(op->size, x, y); break;
    }
}

static rows_t rows_of(const net_t *net, int64_t v, int64_t sample, int by) {
    return (rows_t){by ? gradient(net, v, sample) : value(net, v, sample), net->head_floats};
}

static void forward_linear(net_t *net, const op_t *op, int64_t first, int64_t count) {
    const int64_t inputs = op->size[0], outputs = op->size[1];
    const float *matrix = net->weights[op->weight], *bias = op->bias < 0 ? NULL : net->weights[op->bias];
    const rows_t x = rows_of(net, op->in, first, 0), y = rows_of(net, op->out, first, 0);
    if (op->size[2]) {
        dot_products(matrix, outputs, inputs, count, x, y, bias);
    } else {
        for (int64_t n = 0; n < count; n++)
            if (bias) memcpy(y.at + n * y.stride, bias, outputs * sizeof(float));
            else memset(y.at + n * y.stride, 0, outputs * sizeof(float));
        add_mixtures(matrix, inputs, outputs, count, x, y);
    }
    if (op->relu)
        for (int64_t n = 0; n < count; n++) cut_off(outputs, y.at + n * y.stride, y.at + n * y.stride);
}

static void forward(net_t *net, int64_t first, int64_t count) {
    for (int64_t n = first; n < first + count; n++)
        for (int64_t i = 0; i < net->head; i++) forward_one(net, i, n);
    for (int64_t i = net->head; i < net->ops; i++)
        if (net->op[i].kind == LINEAR) forward_linear(net, net->op + i, first, count);
        else
            for (int64_t n = first; n < first + count; n++) forward_one(net, i, n);
}

static void backward_one(net_t *net, int64_t i, int64_t sample) {
    const op_t *op = net->op + i;
    kept_t *k = net->kept + i;
    const float *x = value(net, op->in, sample), *y = value(net, op->out, sample);
    float *by = gradient(net, op->out, sample), *to = gradient(net, op->in, sample);
    switch (op->kind) {
        case CONVOLUTION: {
            const int64_t pixels = volume(k->plan.out), outputs = k->plan.groups * k->plan.outputs;
            if (op->bias >= 0) add_pixels(pixels, outputs, by, op->relu ? y : NULL, k->bias_sums);
            else if (op->relu) cut_off(pixels * outputs, by, y);
            gather_image(&k->plan, x, by, k->frame, k->wide, k->sums);
            if (op->in) convolve_image(&k->back, by, k->packed_back, k->frame_back, op->more ? to : net->nothing, 0, to);
            break;
        }
        case NORM:
            normalise_back(op->size, op->weight < 0 ? NULL : net->weights[op->weight], x, value(net, op->other, sample),
                           op->relu ? y : NULL, by, k->sums, k->bias_sums, op->more, to);
            break;
        case POOL: max_pool_back(op->size, x, y, by, op->more, to); break;
        case ADD:
            if (op->relu) cut_off(op->size[0], by, y);
            add_or_copy(op->size[0], by, op->more, to);
            add_or_copy(op->size[0], by, op->more_other, gradient(net, op->other, sample));
            break;
        case MEAN: mean_pixels_back(op->size, by, op->more, to); break;
        case ORDER: channels_first_back(op->size, by, op->more, to); break;
    }
}

static void backward_linear(net_t *net, const op_t *op, int64_t first, int64_t count) {
    const int64_t inputs = op->size[0], outputs = op->size[1];
    const float *matrix = net->weights[op->weight];
    const rows_t y = rows_of(net, op->out, first, 0), by = rows_of(net, op->out, first, 1);
    const rows_t to = rows_of(net, op->in, first, 1);
    if (op->relu)
        for (int64_t n = 0; n < count; n++) cut_off(outputs, by.at + n * by.stride, y.at + n * y.stride);
    if (!op->in) return;
    if (op->size[2]) {
        for (int64_t n = 0; n < count; n++) memset(to.at + n * to.stride, 0, inputs * sizeof(float));
        add_mixtures(matrix, outputs, inputs, count, by, to);
    } else {
        dot_products(matrix, inputs, outputs, count, by, to, NULL);
    }
}

static void backward(net_t *net, int64_t first, int64_t count) {
    for (int64_t i = net->ops - 1; i >= net->head; i--)
        if (net->op[i].kind == LINEAR) backward_linear(net, net->op + i, first, count);
        else
            for (int64_t n = first; n < first + count; n++) backward_one(net, i, n);
    for (int64_t n = first; n < first + count; n++)
        for (int64_t i = net->head - 1; i >= 0; i--) backward_one(net, i, n);
}

/* Adds factor times the sums of a step to all weights, and clears these. */
static void move_weights(net_t *net, int64_t batch, float factor) {
    for (int64_t i = 0; i < net->ops; i++) {
        const op_t *op = net->op + i;
        kept_t *k = net->kept + i;
        float *matrix = op->weight < 0 ? NULL : net->weights[op->weight], *bias = op->bias < 0 ? NULL : net->weights[op->bias];
        if (op->kind == CONVOLUTION) {
            add_sums(&k->plan, k->sums, factor, matrix);
            memset(k->sums, 0, sums_size(&k->plan) * sizeof(float));
            if (bias) add_and_clear(k->plan.groups * k->plan.outputs, k->bias_sums, factor, bias);
        } else if (op->kind == NORM) {
            if (matrix) add_and_clear(op->size[1], k->sums, factor, matrix);
            if (bias) add_and_clear(op->size[1], k->bias_sums, factor, bias);
        } else if (op->kind == LINEAR) {
            const int64_t inputs = op->size[0], outputs = op->size[1];
            const rows_t x = rows_of(net, op->in, 0, 0), by = rows_of(net, op->out, 0, 1);
            if (op->size[2]) add_outer(matrix, outputs, inputs, batch, factor, by, x);
            else add_outer(matrix, inputs, outputs, batch, factor, x, by);
            if (bias)
                for (int64_t n = 0; n < batch; n++) add(bias, factor, by.at + n * by.stride, outputs);
        }
    }
}

static void read_sample(const net_t *net, const void *inputs, int floats, int64_t which, float *to) {
    if (floats) memcpy(to, (const float *)inputs + which * net->floats, net->floats * sizeof(float));
    else
        for (int64_t i = 0; i < net->floats; i++) to[i] = ((const uint8_t *)inputs)[which * net->floats + i] * (1.0f / 255);
}

static int take_steps(const int64_t *numbers, float *const *weights, const samples_t *sets, const lesson_t *lesson,
                      const int32_t *draws, int64_t steps, int64_t batch, int64_t slots, float rate) {
    net_t net = read_program(numbers, weights);
    slots = least(slots, batch);
    if (prepare(&net, numbers, batch, slots, 1)) return 1;
    const int64_t targets = net.labels, last = net.op[net.ops - 1].out;
    for (int64_t step = 0; step < steps; step++) {
        pack_kernels(&net, 1);
        for (int64_t first = 0; first < batch; first += slots) {
            const int64_t count = least(slots, batch - first);
            const float *target[count];
            for (int64_t n = 0; n < count; n++) {
                const int64_t drawn = draws[step * batch + first + n];
                const samples_t *set = sets + (drawn >= sets->count);
                const int64_t which = drawn - (set == sets ? 0 : sets->count);
                read_sample(&net, set->inputs, set->floats, which, value(&net, 0, first + n));
                target[n] = set->targets + which * targets;
            }
            forward(&net, first, count);
            for (int64_t n = 0; n < count; n++)
                study_scores(net.labels, lesson, value(&net, last, first + n), target[n], gradient(&net, last, first + n));
            backward(&net, first, count);
        }
        move_weights(&net, batch, -rate / batch);
    }
    free(net.memory);
    return 0;
}

/* SGD: a step for each row of draws [steps, batch]; those from sets[0].count on are of sets[1]. The loss
 * adds offset [L], if not NULL, to the scores. sums [L,L] and counts [L] are added to. Returns 0, or 1 if
 * there is no memory for a batch. `slots`: samples that go through the trunk together. */
int train(const int64_t *program, int64_t slots, float *const *weights, const samples_t *sets, const float *teacher,
          const float *offset, const int32_t *draws, int64_t steps, int64_t batch, float rate, float beta, float *sums,
          float *counts) {
    const lesson_t lesson = {NULL, teacher, offset, beta, sums, counts};
    return take_steps(program, weights, sets, &lesson, draws, steps, batch, slots, rate);
}

/* The same with numbers as targets: teacher and sums are [bins, L], counts [bins]. */
int train_numbers(const int64_t *program, int64_t slots, float *const *weights, const samples_t *sets,
                  const float *teacher, const numbers_t *numbers, const int32_t *draws, int64_t steps, int64_t batch,
                  float rate, float beta, float *sums, float *counts) {
    const lesson_t lesson = {numbers, teacher, NULL, beta, sums, counts};
    return take_steps(program, weights, sets, &lesson, draws, steps, batch, slots, rate);
}

#define TESTED 30 /* samples whose linear layers are computed together */

/* The scores [count, L] of samples. Returns 0, or 1 if there is no memory. */
int scores(const int64_t *program, float *const *weights, const void *inputs, int floats, int64_t count, float *out) {
    net_t net = read_program(program, weights);
    if (prepare(&net, program, TESTED, 1, 0)) return 1;
    const int64_t last = net.op[net.ops - 1].out;
    pack_kernels(&net, 0);
    for (int64_t first = 0; first < count; first += TESTED) {
        const int64_t some = least(TESTED, count - first);
        for (int64_t n = 0; n < some; n++) {
            read_sample(&net, inputs, floats, first + n, value(&net, 0, n));
            for (int64_t i = 0; i < net.head; i++) forward_one(&net, i, n);
        }
        for (int64_t i = net.head; i < net.ops; i++)
            if (net.op[i].kind == LINEAR) forward_linear(&net, net.op + i, 0, some);
            else
                for (int64_t n = 0; n < some; n++) forward_one(&net, i, n);
        for (int64_t n = 0; n < some; n++)
            memcpy(out + (first + n) * net.labels, value(&net, last, n), net.labels * sizeof(float));
    }
    free(net.memory);
    return 0;
}
