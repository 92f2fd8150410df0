/* GTV minimisation by the published primal-dual method (see fedjax_admm/solvers/graph/_gtv.py) with the
   network lasso: runs one after another, a vector of features at a time, lengths of 16 flows at once.
   DIM, the number of features, is given to the compiler.

   Input: runs, nodes, edges (a multiple of LANES), rounds; sigma; per run heads and tails (edges), lam
   A_e (edges), tau (nodes), which nodes have data (nodes), the inverses of their local solves (nodes,
   dim, dim), 2 tau times their right sides (nodes, dim). Output: the models (runs, nodes, dim). */

#include "limits.h"

/* Vectors of two numbers are slower than those of four. */
enum { WIDTH = DIM < 4 ? 4 : DIM };
typedef float vec __attribute__((vector_size(4 * WIDTH)));

static vec *vectors(FILE *file, size_t count) {
    float *numbers = take(file, count * DIM), *from = numbers;
    vec *all = room(sizeof(vec) * count);
    for (size_t i = 0; i < count; i++)
        for (int p = 0; p < DIM; p++) all[i][p] = *from++;
    free(numbers);
    return all;
}

int main(int arguments, char **argument) {
    FILE *file = opened(arguments, argument);
    int32_t *count = take(file, 4);
    int runs = count[0], nodes = count[1], edges = count[2], rounds = count[3];
    float sigma = *(float *)take(file, 1);
    int32_t *heads = take(file, (size_t)runs * edges), *tails = take(file, (size_t)runs * edges);
    float *radii = take(file, (size_t)runs * edges), *taus = take(file, (size_t)runs * nodes);
    int32_t *seen = take(file, (size_t)runs * nodes);
    vec *inverse = vectors(file, (size_t)runs * nodes * DIM);
    vec *right = vectors(file, (size_t)runs * nodes), *w = room(sizeof(vec) * runs * nodes);
    vec *ahead = room(sizeof(vec) * nodes), *out = room(sizeof(vec) * nodes);
    vec *u = room(sizeof(vec) * edges);
    if (edges % LANES) return 2;
    /* Matrices of nodes with data, one after another. */
    vec *packed = inverse;
    for (size_t i = 0; i < (size_t)runs * nodes; i++)
        if (seen[i]) {
            memmove(packed, inverse + i * DIM, sizeof(vec) * DIM);
            packed += DIM;
        }

    double begin = now();
    const vec *own = inverse;
    for (int run = 0; run < runs; run++) {
        const int32_t *head = heads + (size_t)run * edges, *tail = tails + (size_t)run * edges;
        const float *radius = radii + (size_t)run * edges, *tau = taus + (size_t)run * nodes;
        const int32_t *data = seen + (size_t)run * nodes;
        const vec *side = right + (size_t)run * nodes, *after = own;
        vec *model = w + (size_t)run * nodes;
        memset(out, 0, sizeof(vec) * nodes);
        memset(u, 0, sizeof(vec) * edges);
        for (int k = 0; k < rounds; k++) {
            const vec *matrix = own;
            for (int i = 0; i < nodes; i++) {
                vec v = model[i] - tau[i] * out[i];
                if (data[i]) {
                    vec all = v + side[i];
                    v = all[0] * matrix[0];
                    for (int p = 1; p < DIM; p++) v += all[p] * matrix[p];
                    matrix += DIM;
                }
                ahead[i] = 2 * v - model[i];
                model[i] = v;
            }
            after = matrix;
            memset(out, 0, sizeof(vec) * nodes);
            vec at_head = {0}; /* heads are sorted: what is summed up stays in a register */
            int here = head[0];
            for (int e = 0; e < edges; e += LANES) {
                lane share;
                for (int t = 0; t < LANES; t++) {
                    vec moved = u[e + t] + sigma * (ahead[head[e + t]] - ahead[tail[e + t]]);
                    vec square = moved * moved;
                    float sum = 0;
                    for (int p = 0; p < WIDTH; p++) sum += square[p];
                    u[e + t] = moved, share[t] = sum;
                }
                EACH(t) {
                    float length = sqrtf(share[t]), most = radius[e + t];
                    share[t] = length > most ? most / length : 1;
                }
                for (int t = 0; t < LANES; t++) {
                    vec flow = u[e + t] * share[t];
                    u[e + t] = flow;
                    if (head[e + t] != here) {
                        out[here] += at_head;
                        here = head[e + t], at_head = (vec){0};
                    }
                    at_head += flow, out[tail[e + t]] -= flow;
                }
            }
            out[here] += at_head;
        }
        own = after;
    }
    printf("%.9f\n", now() - begin);
    float *found = room((size_t)runs * nodes * DIM * 4), *to = found;
    for (size_t i = 0; i < (size_t)runs * nodes; i++)
        for (int p = 0; p < DIM; p++) *to++ = w[i][p];
    give(argument[2], found, to - found);
    return 0;
}
