/* HFSAD (see fedjax_admm/solvers/tree) on a tree with one level of edge servers, for many trials, a
   vector of trials at a time: all arrays are (clients, dim, LANES).

   Input: trials (a multiple of LANES), edge servers, clients of each, dim, rounds, passes; lambda
   and gamma of SCAD; omega (trials), edge omega (trials), edge sigma (trials); x (trials, clients,
   dim); y (trials, clients); start (trials, dim). Output: the root's models (trials, dim). */

#include "limits.h"

enum { MOST_DIM = 32 };
static const float PRODUCT = 4.47213595499958f; /* sqrt(20): sigma mu = sqrt(20) omega */

/* Schedules of one level at count k, for every trial: sigma = scale sqrt(k), mu = product / scale. */
typedef struct {
    lane omega, sigma, per, per_width, next;
} Link;

static void link_at(Link *link, const lane scale, const lane omega, float spread, int k) {
    float root = sqrtf(k), after = sqrtf(k + 1);
    EACH(t) {
        link->sigma[t] = scale[t] * root;
        link->per[t] = 1 / link->sigma[t];
        link->omega[t] = omega[t];
        link->per_width[t] = 1 / (spread * PRODUCT / root + 2 * omega[t] * link->per[t]);
        link->next[t] = scale[t] * after;
    }
}

/* One number of a link after the node's model w and its parent's: z and Gamma; adds the message. */
static inline void couple(const Link *link, const float w[], const float parent[], lane z,
                          lane gamma, lane sum) {
    EACH(t) {
        float v = parent[t] - w[t] + 2 * gamma[t] * link->per[t];
        float after = link->omega[t] * within(v * link->per_width[t], -1, 1);
        float move = (after - gamma[t]) * link->per[t];
        z[t] = w[t] + move;
        gamma[t] = after;
        sum[t] += link->next[t] * (parent[t] - move) - after;
    }
}

/* All clients of one edge server: the exact prox of the phase residual, then the link. */
static void clients_of(int clients, int dim, const Link *link, const lane *x, const lane *amplitude,
                       const lane *square, lane *z, lane *gamma, const lane *parent, lane *sum) {
    for (int n = 0; n < clients; n++, x += dim, z += dim, gamma += dim) {
        lane centre[MOST_DIM], projection = {0}, shift;
        for (int i = 0; i < dim; i++) EACH(t) {
            centre[i][t] = z[i][t] + gamma[i][t] * link->per[t];
            projection[t] += x[i][t] * centre[i][t];
        }
        EACH(t) {
            float u = projection[t], size = fabsf(u), reach = 2 * link->per[t] * square[n][t];
            float ceiling = reach < 1 ? size / (1 - reach) : 3e38f;
            float target = least(most(amplitude[n][t], size / (1 + reach)), ceiling);
            shift[t] = ((u >= 0 ? target : -target) - u) / square[n][t];
        }
        for (int i = 0; i < dim; i++) {
            lane w;
            EACH(t) w[t] = within(centre[i][t] + shift[t] * x[i][t], -5, 5);
            couple(link, w, parent[i], z[i], gamma[i], sum[i]);
        }
    }
}

static inline float scad(float v, float step, float lam, float gamma) {
    float size = fabsf(v), soft = most(size - step * lam, 0);
    int single = step < gamma - 1;
    float ratio = step / (single ? gamma - 1 - step : 1);
    float middle = most(size + ratio * (size - gamma * lam), lam);
    float soft_end = single ? (1 + step) * lam : (gamma + 1 + step) * lam / 2;
    float middle_end = single ? gamma * lam : soft_end;
    float found = size <= soft_end ? soft : size <= middle_end ? middle : size;
    float hard = size <= lam * sqrtf(step * (gamma + 1)) ? 0 : size;
    return copysignf(step > gamma + 1 ? hard : found, v);
}

int main(int arguments, char **argument) {
    FILE *file = opened(arguments, argument);
    int32_t *count = take(file, 6);
    int trials = count[0], edges = count[1], each = count[2], dim = count[3];
    int rounds = count[4], passes = count[5], clients = edges * each;
    float *number = take(file, 2), lam = number[0], bend = number[1];
    float *omegas = take(file, trials), *edge_omegas = take(file, trials);
    float *edge_scales = take(file, trials);
    float *xs = take(file, (size_t)trials * clients * dim);
    float *ys = take(file, (size_t)trials * clients), *starts = take(file, (size_t)trials * dim);
    float *found = room((size_t)trials * dim * 4);
    if (trials % LANES || dim > MOST_DIM) return 2;
    lane *x = room(sizeof(lane) * clients * dim), *z = room(sizeof(lane) * clients * dim);
    lane *gamma = room(sizeof(lane) * clients * dim);
    lane *square = room(sizeof(lane) * clients), *amplitude = room(sizeof(lane) * clients);
    lane *w = room(sizeof(lane) * edges * dim), *edge_z = room(sizeof(lane) * edges * dim);
    lane *edge_gamma = room(sizeof(lane) * edges * dim), *heard = room(sizeof(lane) * edges * dim);
    float weight = each - 1.0f / edges; /* of SCAD at an edge server; 1 at the root */

    double begin = now();
    for (int first = 0; first < trials; first += LANES) {
        lane omega, edge_omega, edge_scale, root[MOST_DIM], sum[MOST_DIM];
        memset(gamma, 0, sizeof(lane) * clients * dim);
        memset(edge_gamma, 0, sizeof(lane) * edges * dim);
        memset(square, 0, sizeof(lane) * clients);
        for (int t = 0; t < LANES; t++) {
            omega[t] = omegas[first + t], edge_omega[t] = edge_omegas[first + t];
            edge_scale[t] = edge_scales[first + t];
            for (int i = 0; i < dim; i++) root[i][t] = starts[(first + t) * dim + i];
            for (int n = 0; n < clients; n++) {
                for (int i = 0; i < dim; i++) {
                    float one = xs[((size_t)(first + t) * clients + n) * dim + i];
                    x[n * dim + i][t] = one;
                    z[n * dim + i][t] = root[i][t];
                    square[n][t] += one * one;
                }
                amplitude[n][t] = sqrtf(most(ys[(first + t) * clients + n], 0));
            }
        }
        for (int s = 0; s < edges; s++) {
            memcpy(w + s * dim, root, sizeof(lane) * dim);
            memcpy(edge_z + s * dim, root, sizeof(lane) * dim);
        }
        for (int k = 1; k <= rounds * passes; k++) {
            Link client, edge;
            link_at(&client, omega, omega, 1, k);
            link_at(&edge, edge_scale, edge_omega, each / 2.0f, k);
            memset(heard, 0, sizeof(lane) * edges * dim);
            memset(sum, 0, sizeof sum);
            for (int s = 0; s < edges; s++) {
                size_t own = (size_t)s * each * dim;
                clients_of(each, dim, &client, x + own, amplitude + s * each, square + s * each,
                           z + own, gamma + own, w + s * dim, heard + s * dim);
                for (int i = 0; i < dim; i++) {
                    int at = s * dim + i;
                    EACH(t) {
                        float step = 1 / (edge.sigma[t] + each * client.next[t]);
                        float all = edge.sigma[t] * edge_z[at][t] + edge_gamma[at][t] + heard[at][t];
                        w[at][t] = scad(step * all, weight * step, lam, bend);
                    }
                    couple(&edge, w[at], root[i], edge_z[at], edge_gamma[at], sum[i]);
                }
            }
            if (k % passes == 0)
                for (int i = 0; i < dim; i++) EACH(t) {
                    float step = 1 / (edges * edge.next[t]);
                    root[i][t] = scad(step * sum[i][t], step, lam, bend);
                }
        }
        for (int t = 0; t < LANES; t++)
            for (int i = 0; i < dim; i++) found[(first + t) * dim + i] = root[i][t];
    }
    printf("%.9f\n", now() - begin);
    give(argument[2], found, (size_t)trials * dim);
    return 0;
}
