/* A recipe's settings for running an image. They are copied into image.json and template.json. */
#ifndef IMAGE_CONFIG_H
#define IMAGE_CONFIG_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	CONFIG_CPUS_MAX = 32,
	CONFIG_MEMORY_MB_MIN = 64,
	CONFIG_MEMORY_MB_MAX = 1 << 20,
	CONFIG_DISK_MB_MIN = 64,
	CONFIG_DISK_MB_MAX = 16 << 20,
	CONFIG_ENV_MAX = 128,
	CONFIG_TEXT_MAX = 4096, /* of a description, a command, an environment entry or a trigger */
	CONFIG_TRIGGERS_MAX = 64,
	CONFIG_USER_MAX = 32,
	CONFIG_JSON_MAX = 1 << 20,
};

struct image_config {
	char *description; /* all strings are owned, and never NULL after config_init */
	uint32_t cpus;	   /* defaults for sandboxes */
	uint32_t memory_mb;
	uint32_t disk_mb; /* size of the root file system */
	char *user;	  /* user that runs commands */
	char *workdir;	  /* absolute; "" = the user's home */
	char *network;	  /* the most that sandboxes may reach: "off", or a list
			   * (policy/network_list.h); "" = no limit */
	char **env;	  /* "NAME=VALUE", env_count of them */
	size_t env_count;
	char *start_command; /* run at boot before the snapshot; "" = none */
	char *ready_command; /* succeeds once the start command is ready; "" = none */
	char *warm_command;  /* run before the snapshot, so that what it reads is in memory; "" =
			      * none */
	char *entry_command; /* the agent's program (sandbox/entry.h): started before the snapshot,
			      * which is taken when it waits for its input; "" = none */
	char **triggers;     /* instructions of ONBUILD, for builds on this image: trigger_count of
			      * them; NULL if there are none */
	size_t trigger_count;
};

int config_init(struct image_config *c); /* sets the defaults; 0 or -ENOMEM */
void config_done(struct image_config *c);
int config_copy(const struct image_config *from, struct image_config *to);

/* Replaces *slot by a copy of value. 0, -ENOMEM, -E2BIG beyond CONFIG_TEXT_MAX, -EINVAL for control
 * characters other than newline and tab. */
int config_set_text(char **slot, const char *value);

/* Adds "NAME=VALUE", or replaces the value of NAME: 0, -ENOMEM, -EINVAL, -E2BIG. */
int config_add_env(struct image_config *c, const char *entry);

/* Adds an instruction of ONBUILD: as config_set_text, or -E2BIG beyond CONFIG_TRIGGERS_MAX. */
int config_add_trigger(struct image_config *c, const char *instruction);

/* Refuses unusable values; the error names the setting. */
int config_check(const struct image_config *c, struct error *e);

/* Adds the settings to a JSON object: 0 or -ENOMEM. */
int config_to_json(const struct image_config *c, json_t *object);

/* Reads the settings from a JSON object; `c` is initialised. Every setting but `network`,
 * `entry_command` and `onbuild` must be present, and all of their type. */
int config_from_json(const json_t *object, struct image_config *c, struct error *e);

/* Strict helpers for our JSON files, whose content is untrusted. config_json_parse returns a new
 * reference to an object, or NULL with e filled. keys: all keys that it may have,
 * NULL-terminated. */
json_t *config_json_parse(
	const char *text, size_t len, const char *const *keys, const char *what, struct error *e);
/* Read the string or integer of a key. -EINVAL when it is missing, of another type or out of
 * range. */
int config_json_string(const json_t *object, const char *key, char **ret);
int config_json_u64(const json_t *object, const char *key, uint64_t max, uint64_t *ret);

/* Add a key with a string or an integer; 0 or -ENOMEM. */
int config_json_add_string(json_t *object, const char *key, const char *value);
int config_json_add_u64(json_t *object, const char *key, uint64_t value);

#endif
