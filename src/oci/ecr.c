#include "oci/ecr.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "proto/json_tree.h"

#define BASE64_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="

int ecr_api_url(const char *registry, const char *region, char ret[ECR_URL_MAX], struct error *e)
{
	size_t account = strspn(registry, "0123456789"), n = strlen(region);
	const char *at = registry + account;

	if (account > 0 && str_starts_with(at, ".dkr.ecr.")) {
		at += strlen(".dkr.ecr.");
		if (strncmp(at, region, n) == 0 &&
			(strcmp(at + n, ".amazonaws.com") == 0 ||
				strcmp(at + n, ".amazonaws.com.cn") == 0)) {
			(void)snprintf(ret, ECR_URL_MAX, "https://api.ecr.%s/", at); /* fits */
			return 0;
		}
	}
	return error_set(e, ERROR_USAGE, EINVAL,
		"%.200s is no registry of AWS in %s: with an AWS access key the image must be "
		"ACCOUNT.dkr.ecr.%s.amazonaws.com/NAME:TAG",
		registry, region, region);
}

int ecr_token_parse(const void *answer, size_t n, char **ret, struct error *e)
{
	const char *reason, *token;
	json_t *o =
		n <= ECR_ANSWER_MAX ? json_tree_parse(answer, n, JSON_TREE_NO_NUL, &reason) : NULL;
	const json_t *first = json_array_get(json_object_get(o, "authorizationData"), 0);
	int r = 0;

	token = json_string_value(json_object_get(first, "authorizationToken"));
	if (!token || !*token || token[strspn(token, BASE64_CHARACTERS)])
		r = error_set(e, ERROR_BAD_IMAGE, EBADMSG,
			"the API of AWS answers without a password for its registry");
	else if (!(*ret = strdup(token)))
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	json_decref(o);
	return r;
}
