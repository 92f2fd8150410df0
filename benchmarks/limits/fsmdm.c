/* FSMDM (see fedjax_admm/solvers/star/_fsmdm.py) for many trials, a vector of trials at a time.

   Input: trials (a multiple of LANES), sensors, rounds; c, d, alpha, beta, omega; anchors
   (trials, sensors, 3); distances (trials, sensors). Output: the server's models (trials, 3). */

#include "limits.h"

enum { MOST = 64 };

typedef struct {
    lane anchor[3], distance; /* data */
    lane z[3], g[3], psi[3], xi[3], zeta[3];
} Sensor;

/* The numbers of a round, the same for all: schedules and their reciprocals. */
typedef struct {
    float sigma_psi, sigma_xi, per_psi, per_xi, per_total, mu_phi, slack, per_width, next;
} Round;

static void update(Sensor *s, const lane w[3], const Round *r, lane sum[3]) {
    lane x[3];
    EACH(t) {
        /* x: the prox of the convex half of the range residual. */
        float p[3], offset[3], square = 0;
        for (int i = 0; i < 3; i++) {
            p[i] = (r->sigma_psi * s->z[i][t] + r->sigma_xi * s->g[i][t] - s->psi[i][t]
                    - s->xi[i][t]) * r->per_total;
            offset[i] = p[i] - s->anchor[i][t];
            square += offset[i] * offset[i];
        }
        float radius = sqrtf(square);
        float excess = within(radius - s->distance[t], 0, 2 * r->per_total);
        float share = radius > 0 ? excess / radius : 0;
        for (int i = 0; i < 3; i++) x[i][t] = p[i] - share * offset[i];
    }
    EACH(t) {
        /* z: the concave half, by its Moreau envelope. */
        float c[3], offset[3], square = 0;
        for (int i = 0; i < 3; i++) {
            c[i] = x[i][t] + s->psi[i][t] * r->per_psi;
            offset[i] = c[i] - s->anchor[i][t];
            square += offset[i] * offset[i];
        }
        float stretch = r->per_psi / most(sqrtf(square), r->mu_phi - r->per_psi);
        for (int i = 0; i < 3; i++) {
            float z = c[i] + stretch * offset[i];
            s->psi[i][t] += r->sigma_psi * (x[i][t] - z);
            s->z[i][t] = z;
        }
    }
    for (int i = 0; i < 3; i++) EACH(t) {
        /* g and q: the link, by the prox of the smoothed absolute value. */
        float a = x[i][t] + s->xi[i][t] * r->per_xi;
        float b = w[i][t] + s->zeta[i][t] * r->per_xi;
        float v = b - a;
        float e = v - r->slack * within(v * r->per_width, -1, 1);
        float g = (a + b - e) / 2, q = (a + b + e) / 2;
        s->g[i][t] = g;
        s->xi[i][t] += r->sigma_xi * (x[i][t] - g);
        s->zeta[i][t] += r->sigma_xi * (w[i][t] - q);
        sum[i][t] += r->next * q - s->zeta[i][t];
    }
}

int main(int arguments, char **argument) {
    FILE *file = opened(arguments, argument);
    int32_t *count = take(file, 3);
    int trials = count[0], sensors = count[1], rounds = count[2];
    float *number = take(file, 5);
    float c = number[0], d = number[1], alpha = number[2], beta = number[3], omega = number[4];
    float *anchors = take(file, (size_t)trials * sensors * 3);
    float *distances = take(file, (size_t)trials * sensors);
    float *found = room((size_t)trials * 3 * 4);
    static Sensor all[MOST];
    if (sensors > MOST || trials % LANES) return 2;

    double start = now();
    for (int first = 0; first < trials; first += LANES) {
        lane w[3] = {0};
        memset(all, 0, sizeof all);
        for (int l = 0; l < sensors; l++)
            for (int t = 0; t < LANES; t++) {
                for (int i = 0; i < 3; i++)
                    all[l].anchor[i][t] = anchors[((first + t) * sensors + l) * 3 + i];
                all[l].distance[t] = distances[(first + t) * sensors + l];
            }
        for (int k = 1; k <= rounds; k++) {
            float root = sqrtf(k), mu_h = beta / root;
            Round r = {.sigma_psi = c * root, .sigma_xi = d * root, .mu_phi = alpha / root};
            r.per_psi = 1 / r.sigma_psi, r.per_xi = 1 / r.sigma_xi;
            r.per_total = 1 / (r.sigma_psi + r.sigma_xi);
            r.slack = 2 * omega * r.per_xi, r.per_width = 1 / (mu_h + r.slack);
            r.next = d * sqrtf(k + 1);
            lane sum[3] = {0};
            for (int l = 0; l < sensors; l++) update(&all[l], (const lane *)w, &r, sum);
            for (int i = 0; i < 3; i++) EACH(t) w[i][t] = sum[i][t] / (r.next * sensors);
        }
        for (int t = 0; t < LANES; t++)
            for (int i = 0; i < 3; i++) found[(first + t) * 3 + i] = w[i][t];
    }
    printf("%.9f\n", now() - start);
    give(argument[2], found, (size_t)trials * 3);
    return 0;
}
