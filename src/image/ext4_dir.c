#include "image/ext4_dir.h"

#include <errno.h>
#include <search.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "image/ext4_dirent.h"

enum {
	CLASSES = EXT4_DIRENT_MAX / 4 + 1, /* of entries, by their size */
	NAMES_FIRST = 512,
};

#define SLOT_EMPTY   UINT32_MAX
#define SLOT_REMOVED (UINT32_MAX - 1)

struct block {
	blk64_t number;
	uint32_t room; /* the largest entry that fits */
};

/* An open-addressed table: a name's hash, and the index of the block it is in. */
struct slot {
	uint32_t hash, block;
};

/* A directory of several blocks. */
struct big {
	ext2_ino_t ino;
	struct block *blocks;
	uint32_t count, capacity;
	uint32_t first[CLASSES]; /* no block before this one has room for an entry of the class */
	uint32_t freed;		 /* a name was removed from this block last; UINT32_MAX: none */
	struct slot *names;
	size_t names_used, names_size; /* size: a power of two. Removed names are used slots */
};

struct ext4_dirs {
	ext2_filsys fs;
	uint64_t key;
	void *bigs; /* tsearch, by inode */
	alignas(8) uint8_t block[EXT4_DIR_BLOCK_BYTES];
};

/* Evaluates the polynomial with the name's bytes as coefficients at a secret point, modulo 2^61 -
 * 1. */
static uint32_t hash(const struct ext4_dirs *x, const char *name, size_t n)
{
	const uint64_t prime = (UINT64_C(1) << 61) - 1;
	uint64_t h = n + 1;

	for (size_t i = 0; i < n; i++) {
		unsigned __int128 v = (unsigned __int128)h * x->key + (uint8_t)name[i] + 1;

		h = (uint64_t)(v & prime) + (uint64_t)(v >> 61);
		h = h >= prime ? h - prime : h;
	}
	return (uint32_t)h;
}

static int by_ino(const void *a, const void *b)
{
	const struct big *p = a, *q = b;

	return p->ino < q->ino ? -1 : p->ino > q->ino;
}

static void big_free(void *p)
{
	struct big *b = p;

	free(b->blocks);
	free(b->names);
	free(b);
}

struct ext4_dirs *ext4_dirs_new(ext2_filsys fs)
{
	struct ext4_dirs *x = calloc(1, sizeof(*x));

	if (!x || getrandom(&x->key, sizeof(x->key), 0) != sizeof(x->key)) {
		free(x);
		return NULL;
	}
	x->key >>= 3; /* below the prime, but in one case of 2^61 */
	x->fs = fs;
	return x;
}

void ext4_dirs_free(struct ext4_dirs *x)
{
	if (!x)
		return;
	tdestroy(x->bigs, big_free);
	free(x);
}

static struct big *find_big(struct ext4_dirs *x, ext2_ino_t ino)
{
	const struct big key = {.ino = ino};
	void *node = tfind(&key, &x->bigs, by_ino);

	return node ? *(struct big **)node : NULL;
}

static errcode_t read_block(struct ext4_dirs *x, const struct big *b, uint32_t i)
{
	return ext2fs_read_dir_block4(x->fs, b->blocks[i].number, x->block, 0, b->ino);
}

/* Writes what is in x->block, and notes its room. */
static errcode_t write_block(struct ext4_dirs *x, struct big *b, uint32_t i)
{
	b->blocks[i].room = (uint32_t)ext4_dirent_room(x->block);
	return ext2fs_write_dir_block4(x->fs, b->blocks[i].number, x->block, 0, b->ino);
}

/* Enters a name. There must be an empty slot. */
static void put_name(struct big *b, uint32_t h, uint32_t block)
{
	size_t i = h & (b->names_size - 1);

	while (b->names[i].block != SLOT_EMPTY &&
		!(b->names[i].block == SLOT_REMOVED && b->names[i].hash == h))
		i = (i + 1) & (b->names_size - 1);
	b->names_used += b->names[i].block == SLOT_EMPTY;
	b->names[i] = (struct slot){h, block};
}

/* Makes sure that there are n empty slots, and as many more as searching needs. */
static errcode_t reserve_names(struct big *b, size_t n)
{
	struct slot *old = b->names;
	size_t old_size = b->names_size, size = old_size ? old_size : NAMES_FIRST;

	while ((b->names_used + n) * 4 > size * 3)
		size *= 2;
	if (size == old_size)
		return 0;
	b->names = malloc(size * sizeof(*b->names));
	if (!b->names) {
		b->names = old;
		return ENOMEM;
	}
	memset(b->names, 0xff, size * sizeof(*b->names)); /* SLOT_EMPTY */
	b->names_size = size;
	b->names_used = 0;
	for (size_t i = 0; i < old_size; i++)
		if (old[i].block < SLOT_REMOVED)
			put_name(b, old[i].hash, old[i].block);
	free(old);
	return 0;
}

struct entering {
	const struct ext4_dirs *x;
	struct big *b;
	uint32_t block;
};

static void enter_name(void *opaque, const char *name, size_t n)
{
	struct entering *t = opaque;

	put_name(t->b, hash(t->x, name, n), t->block);
}

/* Enters the names of a new block of the directory. */
static errcode_t enter_block(struct ext4_dirs *x, struct big *b, blk64_t number)
{
	struct entering t = {x, b, b->count};
	errcode_t err = reserve_names(b, EXT4_DIR_BLOCK_BYTES / EXT4_DIRENT_MIN);

	if (!err && b->count == b->capacity) {
		uint32_t capacity = b->capacity ? 2 * b->capacity : 4;
		struct block *blocks = reallocarray(b->blocks, capacity, sizeof(*blocks));

		if (!blocks)
			return ENOMEM;
		b->blocks = blocks;
		b->capacity = capacity;
	}
	if (err)
		return err;
	b->blocks[b->count++].number = number;
	err = read_block(x, b, t.block);
	if (err)
		return err;
	b->blocks[t.block].room = (uint32_t)ext4_dirent_room(x->block);
	ext4_dirent_list(x->block, enter_name, &t);
	return 0;
}

/* Enters all blocks of the directory that `b` does not have yet. */
static errcode_t enter_blocks(struct ext4_dirs *x, struct big *b)
{
	struct ext2_inode inode;
	blk64_t number;
	errcode_t err = ext2fs_read_inode(x->fs, b->ino, &inode);
	uint32_t count = err ? 0 : (uint32_t)(EXT2_I_SIZE(&inode) / EXT4_DIR_BLOCK_BYTES);

	while (!err && b->count < count) {
		err = ext2fs_bmap2(x->fs, b->ino, &inode, NULL, 0, b->count, NULL, &number);
		if (!err)
			err = enter_block(x, b, number);
	}
	return err;
}

/* Begins to keep track of a directory that has more than one block. */
static errcode_t make_big(struct ext4_dirs *x, ext2_ino_t dir)
{
	struct big *b = calloc(1, sizeof(*b));
	errcode_t err;

	if (!b)
		return ENOMEM;
	b->ino = dir;
	b->freed = UINT32_MAX;
	err = enter_blocks(x, b);
	if (!err && !tsearch(b, &x->bigs, by_ino))
		err = ENOMEM;
	if (err)
		big_free(b);
	return err;
}

/* Finds the slot of a name. Leaves its block in x->block. */
static errcode_t find_name(
	struct ext4_dirs *x, const struct big *b, const char *name, struct slot **ret_slot)
{
	uint32_t h = hash(x, name, strlen(name));
	errcode_t err;

	for (size_t i = h & (b->names_size - 1); b->names[i].block != SLOT_EMPTY;
		i = (i + 1) & (b->names_size - 1)) {
		if (b->names[i].hash != h || b->names[i].block == SLOT_REMOVED)
			continue;
		err = read_block(x, b, b->names[i].block);
		if (err)
			return err;
		if (ext4_dirent_find(x->block, name)) {
			*ret_slot = &b->names[i];
			return 0;
		}
	}
	return EXT2_ET_FILE_NOT_FOUND;
}

errcode_t ext4_dirs_lookup(struct ext4_dirs *x, ext2_ino_t dir, const char *name, ext2_ino_t *ret)
{
	const struct big *b = find_big(x, dir);
	struct slot *slot;
	errcode_t err;

	if (!b)
		return ext2fs_lookup(x->fs, dir, name, (int)strlen(name), NULL, ret);
	err = find_name(x, b, name, &slot);
	if (!err)
		*ret = ext4_dirent_find(x->block, name);
	return err;
}

/* The first block with room, or b->count. */
static uint32_t find_room(struct big *b, size_t bytes)
{
	uint32_t *first = &b->first[bytes / 4], freed = b->freed;

	while (*first < b->count && b->blocks[*first].room < bytes)
		(*first)++;
	b->freed = UINT32_MAX;
	return freed < *first && b->blocks[freed].room >= bytes ? freed : *first;
}

static errcode_t link_big(
	struct ext4_dirs *x, struct big *b, const char *name, ext2_ino_t ino, int type)
{
	uint32_t i = find_room(b, ext4_dirent_bytes(strlen(name)));
	errcode_t err = reserve_names(b, 1);

	if (!err && i == b->count) {
		err = ext2fs_expand_dir(x->fs, b->ino);
		if (!err)
			err = enter_blocks(x, b);
	}
	if (!err)
		err = read_block(x, b, i);
	if (!err && !ext4_dirent_add(x->block, name, ino, (unsigned)type))
		err = EXT2_ET_DIR_CORRUPTED;
	if (!err)
		err = write_block(x, b, i);
	if (!err)
		put_name(b, hash(x, name, strlen(name)), i);
	return err;
}

errcode_t ext4_dirs_link(
	struct ext4_dirs *x, ext2_ino_t dir, const char *name, ext2_ino_t ino, int type)
{
	struct big *b = find_big(x, dir);
	errcode_t err;

	if (b)
		return link_big(x, b, name, ino, type);
	err = ext2fs_link(x->fs, dir, name, ino, type);
	if (err != EXT2_ET_DIR_NO_SPACE)
		return err;
	err = ext2fs_expand_dir(x->fs, dir);
	if (!err)
		err = make_big(x, dir);
	return err ? err : link_big(x, find_big(x, dir), name, ino, type);
}

errcode_t ext4_dirs_unlink(struct ext4_dirs *x, ext2_ino_t dir, const char *name, ext2_ino_t ino)
{
	struct big *b = find_big(x, dir);
	struct slot *slot;
	uint32_t block;
	errcode_t err;

	if (!b)
		return ext2fs_unlink(x->fs, dir, name, ino, 0);
	err = find_name(x, b, name, &slot);
	if (err)
		return err;
	block = slot->block;
	slot->block = SLOT_REMOVED;
	b->freed = block;
	(void)ext4_dirent_remove(x->block, name); /* find_name found it */
	return write_block(x, b, block);
}
