/* Rule weights: values of tensors, images and sample places that follow from names and indexes alone, so that
 * a network can be tested without a checkpoint. fe_rule_fill (weights.h) gives the tensors. */
#ifndef FE_RULE_H
#define FE_RULE_H

#include "weights.h"

/* FNV-1a of a name, and the mixer of the generator. */
uint64_t fe_rule_hash(const char *name);
uint64_t fe_rule_mix(uint64_t z);

/* Uniform value of element i of a name: [0, 1), a multiple of 2^-24. */
double fe_rule_uniform(const char *name, uint64_t i);

/* RGB image of h x w pixels, 3 bytes a pixel, h * w * 3 < 2^63. */
void fe_rule_image(uint8_t *rgb, int h, int w, uint32_t seed);

/* Place of the k-th sample of a tensor; numel > 0. */
uint64_t fe_rule_sample(uint64_t k, uint64_t numel);

#endif
