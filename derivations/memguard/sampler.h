// SPDX-License-Identifier: Apache-2.0
//
// The files of the kernel from which a sample is read; open from the start, so that a look opens nothing.
#ifndef MEMGUARD_SAMPLER_H
#define MEMGUARD_SAMPLER_H

#include "evidence.h"

struct sampler {
	int proc;
	int meminfo;
	int pressure; // -1: this kernel does not tell
	int zoneinfo; // -1: likewise
	uint64_t page;
};

// Opens them below the folder where proc is mounted. False, and said, where what decides is not there.
bool sampler_open(struct sampler *sampler, const struct options *options);

// Reads a sample; what was read stays in the evidence.
void sampler_read(const struct sampler *sampler, struct sample *sample, struct evidence *evidence);

#endif
