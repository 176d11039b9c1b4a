/* Trains and tests with the kernel of small_cnn.c on what a file holds; for other processors. */
#include KERNEL
#include <stdio.h>
#include <stdlib.h>

static void *take(FILE *file, size_t bytes) {
    void *data = malloc(bytes);
    if (fread(data, 1, bytes, file) != bytes) exit(2);
    return data;
}

int main(int count, char **names) {
    if (count != 3) return 1;
    FILE *in = fopen(names[1], "rb"), *out = fopen(names[2], "wb");
    const int64_t *sizes = take(in, 3 * sizeof(int64_t)); /* samples, steps, batch */
    const size_t lengths[6] = {
        FIRST, 9 * CHANNELS * FIRST, SECOND, 9 * FIRST * SECOND, LABELS, LABELS * FEATURES};
    float *tensors[6];
    for (int t = 0; t < 6; t++) tensors[t] = take(in, 4 * lengths[t]);
    samples_t set = {.count = sizes[0], .floats = 0};
    set.images = take(in, sizes[0] * SIDE * SIDE * CHANNELS);
    set.targets = take(in, 4 * sizes[0] * LABELS);
    const int32_t *labels = take(in, 4 * sizes[0]);
    const float *teacher = take(in, 4 * LABELS * LABELS), *offset = take(in, 4 * LABELS);
    const int32_t *draws = take(in, 4 * sizes[1] * sizes[2]);
    float sums[LABELS * LABELS] = {0}, counts[LABELS] = {0};
    train(tensors, &set, teacher, offset, draws, sizes[1], sizes[2], 0.05f, 0.3f, sums, counts);
    const int64_t correct = count_correct(tensors, set.images, 0, labels, sizes[0]);
    for (int t = 0; t < 6; t++) fwrite(tensors[t], 4, lengths[t], out);
    fwrite(sums, 4, LABELS * LABELS, out);
    fwrite(counts, 4, LABELS, out);
    fwrite(&correct, 8, 1, out);
    return fclose(out);
}
