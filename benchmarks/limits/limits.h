/* What the programs of this folder share: numbers from and to files, and the clock.

   Each is called with an input file and an output file (and options of its own), prints the seconds
   of its rounds alone, and works on one core. An input begins with counts and numbers of 4 bytes,
   and the arrays follow in the order in which the program takes them. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Numbers that are worked on together: a full vector of AVX-512, two of AVX2. */
#define LANES 16
#define SIMD _Pragma("omp simd")
#define EACH(t) SIMD for (int t = 0; t < LANES; t++)

typedef float lane[LANES] __attribute__((aligned(64)));

static void *room(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) exit(2);
    return memset(memory, 0, bytes);
}

/* The next numbers of a file, each of 4 bytes. */
static void *take(FILE *file, size_t count) {
    void *memory = room(4 * count);
    if (fread(memory, 4, count, file) != count) {
        fprintf(stderr, "The input is too short.\n");
        exit(2);
    }
    return memory;
}

static void give(const char *path, const float *values, size_t count) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(values, 4, count, file) != count || fclose(file)) exit(2);
}

static FILE *opened(int arguments, char **argument) {
    FILE *file = arguments > 2 ? fopen(argument[1], "rb") : NULL;
    if (!file) {
        fprintf(stderr, "Give an input file that exists, and an output file.\n");
        exit(2);
    }
    return file;
}

/* Seconds of the processor: others may use the machine at the same time. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static inline float least(float a, float b) { return a < b ? a : b; }
static inline float most(float a, float b) { return a > b ? a : b; }
static inline float within(float x, float low, float high) { return least(most(x, low), high); }
