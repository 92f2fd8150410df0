"""Sets with a projection of their own: cones, spheres, half-spaces, affine sets."""
