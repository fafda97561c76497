// SPDX-License-Identifier: Apache-2.0

#include "sampler.h"

#include "files.h"
#include "say.h"

#include <fcntl.h>
#include <unistd.h>

bool sampler_open(struct sampler *sampler, const struct options *options)
{
	sampler->page = (uint64_t)sysconf(_SC_PAGESIZE);
	sampler->proc = open(options->proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (sampler->proc < 0) {
		say_error("cannot open ", options->proc, NULL);
		return false;
	}
	sampler->meminfo = openat(sampler->proc, "meminfo", O_RDONLY | O_CLOEXEC);
	if (sampler->meminfo < 0) {
		say_error("cannot open ", options->proc, "/meminfo", NULL);
		return false;
	}
	sampler->pressure = openat(sampler->proc, "pressure/memory", O_RDONLY | O_CLOEXEC);
	if (sampler->pressure < 0 && options->limits.psi_full != 0) {
		say_error("--psi-full needs pressure stall information (psi=1 on the kernel's command line); cannot open ",
			  options->proc, "/pressure/memory", NULL);
		return false;
	}
	sampler->zoneinfo = openat(sampler->proc, "zoneinfo", O_RDONLY | O_CLOEXEC);
	return true;
}

void sampler_read(const struct sampler *sampler, struct sample *sample, struct evidence *evidence)
{
	static char zones[131072];
	char pressure[512];
	uint64_t pages = 0;
	*sample = (struct sample){.monotonic_ns = monotonic_ns()};

	ssize_t count = read_whole(sampler->meminfo, evidence->meminfo, sizeof evidence->meminfo);
	evidence->meminfo_size = count < 0 ? 0 : (size_t)count;
	sample->memory_known = count > 0 && parse_memory(evidence->meminfo, evidence->meminfo_size, &sample->memory);

	count = sampler->pressure < 0 ? -1 : read_whole(sampler->pressure, pressure, sizeof pressure);
	sample->pressure_known = count > 0 && parse_pressure(pressure, (size_t)count, &sample->pressure);

	count = sampler->zoneinfo < 0 ? -1 : read_whole(sampler->zoneinfo, zones, sizeof zones);
	if (count > 0 && parse_boost(zones, (size_t)count, &pages))
		sample->boost_known = !__builtin_mul_overflow(pages, sampler->page, &sample->boost_bytes);
	evidence_add(evidence, sample);
}
