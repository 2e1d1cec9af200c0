#include "image/ext4_dirent.h"

#include <ext2fs/ext2fs.h>
#include <string.h>

enum {
	HEADER_BYTES = 8,
	TAIL_BYTES = 12, /* the checksum */
	END = EXT4_DIR_BLOCK_BYTES - TAIL_BYTES,
};

static struct ext2_dir_entry *at(const void *block, size_t offset)
{
	return (struct ext2_dir_entry *)(void *)((char *)(uintptr_t)block + offset);
}

static size_t name_bytes(const struct ext2_dir_entry *d)
{
	return (size_t)ext2fs_dirent_name_len(d);
}

/* Where the entry after this one begins; END also when an entry is damaged. */
static size_t after(const void *block, size_t offset)
{
	size_t n = at(block, offset)->rec_len;

	if (n < HEADER_BYTES || n % 4 != 0 || n > END - offset ||
		name_bytes(at(block, offset)) + HEADER_BYTES > n)
		return END;
	return offset + n;
}

size_t ext4_dirent_bytes(size_t n)
{
	return (n + HEADER_BYTES + 3) & ~(size_t)3;
}

static size_t used_bytes(const struct ext2_dir_entry *d)
{
	return d->inode ? ext4_dirent_bytes(name_bytes(d)) : 0;
}

/* The end of the unused entries that follow this one. */
static size_t end_of_gap(const void *block, size_t offset)
{
	size_t end = after(block, offset);

	while (end < END && at(block, end)->inode == 0)
		end = after(block, end);
	return end;
}

static size_t gap_at(const void *block, size_t offset)
{
	size_t used = offset + used_bytes(at(block, offset)), end = end_of_gap(block, offset);

	return end > used ? end - used : 0;
}

size_t ext4_dirent_room(const void *block)
{
	size_t most = 0;

	for (size_t p = 0; p < END; p = after(block, p)) {
		size_t n = gap_at(block, p);

		most = n > most ? n : most;
	}
	return most;
}

static void put(
	struct ext2_dir_entry *d, size_t bytes, const char *name, uint32_t ino, unsigned type)
{
	size_t n = strlen(name);

	d->rec_len = (uint16_t)bytes;
	d->inode = ino;
	ext2fs_dirent_set_name_len(d, (int)n);
	ext2fs_dirent_set_file_type(d, (int)type);
	memcpy(d->name, name, n);
}

bool ext4_dirent_add(void *block, const char *name, uint32_t ino, unsigned type)
{
	size_t need = ext4_dirent_bytes(strlen(name)), p = 0, used, end;

	while (p < END && gap_at(block, p) < need)
		p = after(block, p);
	if (p >= END)
		return false;
	used = used_bytes(at(block, p));
	end = end_of_gap(block, p);
	if (used)
		at(block, p)->rec_len = (uint16_t)used;
	put(at(block, p + used), end - p - used, name, ino, type);
	return true;
}

static bool is_named(const struct ext2_dir_entry *d, const char *name, size_t n)
{
	return d->inode && name_bytes(d) == n && memcmp(d->name, name, n) == 0;
}

/* The offset of a name's entry or END, and that of the entry before it. */
static size_t find(const void *block, const char *name, size_t *ret_before)
{
	size_t p = 0, n = strlen(name);

	*ret_before = END;
	while (p < END && !is_named(at(block, p), name, n)) {
		*ret_before = p;
		p = after(block, p);
	}
	return p;
}

uint32_t ext4_dirent_find(const void *block, const char *name)
{
	size_t before, p = find(block, name, &before);

	return p < END ? at(block, p)->inode : 0;
}

bool ext4_dirent_remove(void *block, const char *name)
{
	size_t before, p = find(block, name, &before);

	if (p >= END)
		return false;
	if (before < END)
		at(block, before)->rec_len = (uint16_t)(after(block, p) - before);
	else
		at(block, p)->inode = 0;
	return true;
}

void ext4_dirent_list(
	const void *block, void (*each)(void *opaque, const char *name, size_t n), void *opaque)
{
	for (size_t p = 0; p < END; p = after(block, p))
		if (at(block, p)->inode)
			each(opaque, at(block, p)->name, name_bytes(at(block, p)));
}
