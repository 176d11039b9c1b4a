/* Fused multiply-adds as fast as this processor does them: twelve independent chains of vectors. */
#include <stdint.h>

typedef float vec __attribute__((vector_size(4 * LANES)));

float multiply_add(int64_t count) {
    vec m = (vec){} + 0.999f, b = (vec){} + 0.001f;
    vec a0 = b, a1 = b, a2 = b, a3 = b, a4 = b, a5 = b, a6 = b, a7 = b, a8 = b, a9 = b, a10 = b, a11 = b;
    for (int64_t i = 0; i < count; i++) {
        a0 = a0 * m + b, a1 = a1 * m + b, a2 = a2 * m + b, a3 = a3 * m + b, a4 = a4 * m + b, a5 = a5 * m + b;
        a6 = a6 * m + b, a7 = a7 * m + b, a8 = a8 * m + b, a9 = a9 * m + b, a10 = a10 * m + b, a11 = a11 * m + b;
        __asm__ volatile("" : "+v"(a0), "+v"(a1), "+v"(a2), "+v"(a3), "+v"(a4), "+v"(a5));
        __asm__ volatile("" : "+v"(a6), "+v"(a7), "+v"(a8), "+v"(a9), "+v"(a10), "+v"(a11));
    }
    vec sum = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;
    return sum[0];
}
