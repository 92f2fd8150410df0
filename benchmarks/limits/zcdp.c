/* Private networked ADMM (zCDP-NFL, see fedjax_admm/solvers/private): runs one after another, a
   vector of samples or of parameters at a time.

   Input: trials, edges, rounds, tasks, epsilons, how noise is drawn (0: as the package does, 1: the
   same normal numbers of cheap words, 2: not at all); per task and epsilon step, power, rho, clip and
   the multipliers of the rounds; per task whether its loss is |p - y| (else its square) and, per
   trial, l1 and l2; heads and tails (trials, edges); x (trials, clients, samples, dim); y (trials,
   clients, samples); words of the rounds' keys (trials, rounds, 2). Output: the models without noise
   after the last round (trials, tasks, epsilons, clients, dim). */

#include "limits.h"

enum { CLIENTS = 50, SAMPLES = 50, ROOM = 64, DIM = 8, MOST_EDGES = 256 };
enum { NUMBERS = CLIENTS * DIM, WORDS = 3 * NUMBERS };
static const float EPS = 1.1920929e-7f, TINY = 1.17549435e-38f;

typedef float vec __attribute__((vector_size(4 * DIM)));

typedef struct {
    float x[DIM][ROOM]; /* features, samples last */
    float y[ROOM], length[ROOM], per_norm[ROOM];
    vec row[SAMPLES]; /* features of a sample over the largest of them */
} Client;

static inline uint32_t turned(uint32_t x, int by) { return x << by | x >> (32 - by); }

/* Threefry-2x32 with 20 rounds of the numbers 0, 1, ..., the first half beside the second. */
static void threefry(const uint32_t key[2], uint32_t words[WORDS]) {
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t k[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA};
    SIMD for (int i = 0; i < WORDS / 2; i++) {
        uint32_t a = i + k[0], b = i + WORDS / 2 + k[1];
#pragma GCC unroll 5
        for (int r = 0; r < 5; r++) {
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) a += b, b = a ^ turned(b, turns[r % 2][j]);
            a += k[(r + 1) % 3], b += k[(r + 2) % 3] + r + 1;
        }
        words[i] = a, words[i + WORDS / 2] = b;
    }
}

/* Words that are hardly mixed: what is left of the time when drawing them costs next to nothing. */
static void cheap(const uint32_t key[2], uint32_t words[WORDS]) {
    SIMD for (int i = 0; i < WORDS; i++) {
        uint32_t a = (key[0] + i) * 2654435769u ^ key[1];
        a = (a ^ a >> 16) * 2246822519u, words[i] = a ^ a >> 15;
    }
}

/* The quantiles of fedjax_admm/privacy/_noise.py, of 95 bits and a sign. */
static void normals(const uint32_t words[WORDS], float found[NUMBERS]) {
    const float c[] = {3.3871327179f, 50.434271938f, 159.29113202f, 59.109374720f};
    const float C[] = {1.0f, 17.895169469f, 78.757757664f, 67.187563600f};
    const float m[] = {1.4234372777f, 2.7568153900f, 1.3067284816f, 0.17023821103f};
    const float M[] = {1.0f, 0.73700164250f, 0.12021132975f};
    const float e[] = {6.6579051150f, 3.0812263860f, 0.42868294337f, 0.017337203997f};
    const float E[] = {1.0f, 0.24197894225f, 0.012258202635f};
    const uint32_t centre = (uint32_t)(0.15 * 2147483648.0);
    SIMD for (int i = 0; i < NUMBERS; i++) {
        uint32_t top = words[i] & 0x7fffffff, flip = top >= centre ? 0xffffffff : 0;
        float mass = ((float)(words[i + 2 * NUMBERS] ^ flip) + 0.5f) * 0x1p-95f;
        mass += (float)(words[i + NUMBERS] ^ flip) * 0x1p-63f;
        mass += (float)((top ^ flip) & 0x7fffffff) * 0x1p-31f;
        float half = mass / 2, s = 0.180625f - half * half;
        float inner = half * (((c[3] * s + c[2]) * s + c[1]) * s + c[0])
                      / (((C[3] * s + C[2]) * s + C[1]) * s + C[0]);
        float root = sqrtf(-logf(half)), t = root <= 5 ? root - 1.6f : root - 5;
        float near = (((m[3] * t + m[2]) * t + m[1]) * t + m[0]) / ((M[2] * t + M[1]) * t + M[0]);
        float far = (((e[3] * t + e[2]) * t + e[1]) * t + e[0]) / ((E[2] * t + E[1]) * t + E[0]);
        float size = flip ? inner : root <= 5 ? near : far;
        found[i] = words[i] >> 31 ? -size : size;
    }
}

static inline vec all(float a) {
    vec v;
    for (int p = 0; p < DIM; p++) v[p] = a;
    return v;
}

static inline float sum_of_sizes(vec v) {
    float sum = 0;
    for (int p = 0; p < DIM; p++) sum += fabsf(v[p]);
    return sum;
}

static inline vec signs(vec v) {
    for (int p = 0; p < DIM; p++) v[p] = v[p] > 0 ? 1 : v[p] < 0 ? -1 : 0;
    return v;
}

/* The mean of the clipped gradients of a client's samples. */
static vec mean_gradient(const Client *own, vec model, int absolute, float limit) {
    float share[ROOM] __attribute__((aligned(64)));
    SIMD for (int j = 0; j < ROOM; j++) {
        float p = 0;
        for (int i = 0; i < DIM; i++) p += own->x[i][j] * model[i];
        float error = p - own->y[j];
        float slope = absolute ? (error > 0 ? 1.f : error < 0 ? -1.f : 0.f) : 2 * error;
        share[j] = within(slope * own->length[j], -limit, limit) * own->per_norm[j];
    }
    vec even = all(0), odd = all(0);
    for (int j = 0; j < SAMPLES; j += 2) {
        even += share[j] * own->row[j];
        odd += share[j + 1] * own->row[j + 1];
    }
    return (even + odd) * (1.0f / SAMPLES);
}

/* Messages on a grid whose width is a power of two, 2^-11 of the noise's deviation or less. */
static inline vec on_grid(vec message, float deviation) {
    union { float f; int32_t i; } one = {deviation};
    int exponent = (one.i >> 23) - 11;
    if (exponent <= 0) return message;
    one.i = exponent << 23;
    float width = one.f, per = 1 / width, largest = width * 0x1p23f;
    for (int p = 0; p < DIM; p++)
        message[p] = fabsf(message[p]) < largest ? rintf(message[p] * per) * width : message[p];
    return message;
}

typedef struct {
    float step, power, rho, clip;
    const float *multipliers;
} Setting;

static void run(const Client *clients, const int32_t *heads, const int32_t *tails, int edges,
                const int *degrees, const Setting *set, int absolute, float l1, float l2,
                const uint32_t *keys, int rounds, int kind, vec *w) {
    static vec v[CLIENTS], pull[CLIENTS], flow[MOST_EDGES];
    static uint32_t words[WORDS] __attribute__((aligned(64)));
    static float noise[NUMBERS] __attribute__((aligned(64)));
    const float excess = SAMPLES * (SAMPLES + 1 + 4) * (EPS / 2) + 16 * EPS;
    const float limit = set->clip / (1 + (DIM + 8) * EPS);
    memset(v, 0, sizeof v);
    memset(flow, 0, sizeof flow);
    memset(noise, 0, sizeof noise);
    for (int n = 1; n <= rounds; n++, keys += 2) {
        if (kind == 0) threefry(keys, words);
        if (kind == 1) cheap(keys, words);
        if (kind < 2) normals(words, noise);
        /* gamma + rho L v, of flows that are one step ahead. */
        memset(pull, 0, sizeof pull);
        for (int e = 0; e < edges; e++) {
            vec ahead = flow[e] + set->rho * (v[heads[e]] - v[tails[e]]);
            pull[heads[e]] += ahead, pull[tails[e]] -= ahead;
        }
        float eta = set->step * powf(n, -set->power);
        for (int k = 0; k < CLIENTS; k++) {
            float gain = eta / (1 + 2 * eta * set->rho * degrees[k]);
            vec fixed = (l1 * signs(v[k]) + 2 * l2 * v[k]) * (1.0f / CLIENTS);
            vec gradient = mean_gradient(&clients[k], v[k], absolute, limit) + fixed;
            w[k] = v[k] - gain * (gradient + pull[k]);
            float size = sum_of_sizes(v[k]) + gain * (sum_of_sizes(pull[k]) + sum_of_sizes(fixed));
            float lost = DIM * TINY * (1 + gain);
            float more = 8 * (EPS / 2 * (size + gain * set->clip) + lost);
            gain += more * SAMPLES / (2 * set->clip);
            float moved = 2 * set->clip * gain / SAMPLES;
            float deviation = set->multipliers[n - 1] * moved * (1 + excess);
            vec normal;
            memcpy(&normal, noise + k * DIM, sizeof normal);
            v[k] = on_grid(w[k] + deviation * normal, deviation);
        }
        for (int e = 0; e < edges; e++) flow[e] += set->rho * (v[heads[e]] - v[tails[e]]);
    }
}

static void fill(Client *client, const float *x, const float *y) {
    memset(client, 0, sizeof *client);
    for (int j = 0; j < SAMPLES; j++, x += DIM) {
        float largest = 0, square = 0;
        for (int p = 0; p < DIM; p++) {
            client->x[p][j] = x[p];
            largest = most(largest, fabsf(x[p]));
        }
        for (int p = 0; p < DIM; p++) {
            client->row[j][p] = x[p] / largest;
            square += client->row[j][p] * client->row[j][p];
        }
        client->y[j] = y[j];
        client->length[j] = largest * sqrtf(square), client->per_norm[j] = 1 / sqrtf(square);
    }
}

int main(int arguments, char **argument) {
    FILE *file = opened(arguments, argument);
    int32_t *count = take(file, 6);
    int trials = count[0], edges = count[1], rounds = count[2], tasks = count[3], levels = count[4];
    int kind = arguments > 3 ? atoi(argument[3]) : count[5];
    float *settings = take(file, (size_t)tasks * levels * (4 + rounds));
    int32_t *absolute = take(file, tasks);
    float *l1 = take(file, (size_t)tasks * trials), *l2 = take(file, (size_t)tasks * trials);
    int32_t *heads = take(file, (size_t)trials * edges), *tails = take(file, (size_t)trials * edges);
    float *x = take(file, (size_t)trials * CLIENTS * SAMPLES * DIM);
    float *y = take(file, (size_t)trials * CLIENTS * SAMPLES);
    uint32_t *keys = take(file, (size_t)trials * rounds * 2);
    vec *found = room(sizeof(vec) * trials * tasks * levels * CLIENTS), *next = found;
    Client *clients = room(sizeof(Client) * CLIENTS);
    if (edges > MOST_EDGES) return 2;

    double begin = now();
    for (int t = 0; t < trials; t++) {
        int degrees[CLIENTS] = {0};
        const int32_t *head = heads + t * edges, *tail = tails + t * edges;
        for (int e = 0; e < edges; e++) degrees[head[e]]++, degrees[tail[e]]++;
        for (int k = 0; k < CLIENTS; k++) {
            size_t first = ((size_t)t * CLIENTS + k) * SAMPLES;
            fill(&clients[k], x + first * DIM, y + first);
        }
        for (int a = 0; a < tasks; a++)
            for (int b = 0; b < levels; b++, next += CLIENTS) {
                float *s = settings + (a * levels + b) * (4 + rounds);
                Setting set = {s[0], s[1], s[2], s[3], s + 4};
                run(clients, head, tail, edges, degrees, &set, absolute[a], l1[a * trials + t],
                    l2[a * trials + t], keys + (size_t)t * rounds * 2, rounds, kind, next);
            }
    }
    printf("%.9f\n", now() - begin);
    give(argument[2], (float *)found, (next - found) * DIM);
    return 0;
}
