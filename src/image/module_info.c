#include "image/module_info.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Finds the section's bytes; false when the file is not ELF or lacks the section. */
static bool find_section(
	const uint8_t *elf, size_t len, const char *want, const char **ret, size_t *ret_len)
{
	Elf64_Ehdr h;
	Elf64_Shdr s, names;

	if (len < sizeof(h))
		return false;
	memcpy(&h, elf, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
		h.e_shentsize != sizeof(s) || h.e_shstrndx >= h.e_shnum || h.e_shoff > len ||
		(uint64_t)h.e_shnum * sizeof(s) > len - h.e_shoff)
		return false;
	memcpy(&names, elf + h.e_shoff + h.e_shstrndx * sizeof(s), sizeof(s));
	if (names.sh_offset > len || names.sh_size > len - names.sh_offset)
		return false;
	for (size_t i = 0; i < h.e_shnum; i++) {
		size_t n = strlen(want) + 1;

		memcpy(&s, elf + h.e_shoff + i * sizeof(s), sizeof(s));
		if (s.sh_name > names.sh_size || n > names.sh_size - s.sh_name ||
			memcmp(elf + names.sh_offset + s.sh_name, want, n) != 0)
			continue;
		if (s.sh_type == SHT_NOBITS || s.sh_offset > len || s.sh_size > len - s.sh_offset)
			return false;
		*ret = (const char *)elf + s.sh_offset;
		*ret_len = s.sh_size;
		return true;
	}
	return false;
}

const char *module_info(const void *elf, size_t len, const char *key)
{
	size_t left, k = strlen(key);
	const char *p;

	if (!find_section(elf, len, ".modinfo", &p, &left))
		return NULL;
	while (left > 0) {
		const char *end = memchr(p, '\0', left);

		if (!end)
			return NULL;
		if ((size_t)(end - p) > k && strncmp(p, key, k) == 0 && p[k] == '=')
			return p + k + 1;
		left -= (size_t)(end - p) + 1;
		p = end + 1;
	}
	return NULL;
}
