/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/build.h
 * Which build of a module, or of the program, is loaded: versions that people give do not tell one
 * from the next.
 */
#ifndef HTC_BASE_BUILD_H
#define HTC_BASE_BUILD_H

#include <stdint.h>

/**
 * A number for the loaded object that has @a address in it: the same for the same build wherever it
 * is loaded, another for another. Made of the build-id that the linker gave it; without one, of all
 * that is in it and cannot be written.
 * @return 0: no object has it.
 */
uint64_t htc_build_of(const void *address);

#endif
