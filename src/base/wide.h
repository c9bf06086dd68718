/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/wide.h
 * The product of two 64-bit numbers, which hashes fold into 64 bits. A processor of 64 bits has an
 * instruction for it; on one of 32 bits the compiler has no type as wide as the product.
 */
#ifndef HTC_BASE_WIDE_H
#define HTC_BASE_WIDE_H

#include <stdint.h>

/** htc_fold_product() of four products of 64 bits; on its own for a test. */
static inline uint64_t htc_fold_product_halves(uint64_t a, uint64_t b)
{
    uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX);
    uint64_t middle = (a >> 32) * (b & UINT32_MAX) + (low >> 32);
    uint64_t other = (a & UINT32_MAX) * (b >> 32) + (middle & UINT32_MAX);
    uint64_t high = (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);

    return (other << 32 | (low & UINT32_MAX)) ^ high;
}

/** The upper half of a * b, exclusive-or the lower one, as wyhash does it. */
static inline uint64_t htc_fold_product(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    return htc_fold_product_halves(a, b);
#endif
}

#endif
