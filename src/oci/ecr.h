/* Amazon's private registries (ECR): their API gives a password for an access key of AWS, which
 * holds for twelve hours (GetAuthorizationToken). */
#ifndef OCI_ECR_H
#define OCI_ECR_H

#include <stddef.h>

#include "base/error.h"

#define ECR_TARGET "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"

enum { ECR_URL_MAX = 128, ECR_ANSWER_MAX = 64 << 10 };

/* The URL of the API for a registry, ACCOUNT.dkr.ecr.REGION.amazonaws.com (also .com.cn), in this
 * region. ERROR_USAGE for any other registry: nobody else gets what is signed with the key. */
int ecr_api_url(const char *registry, const char *region, char ret[ECR_URL_MAX], struct error *e);

/* Takes the token out of the API's answer: "USER:PASSWORD" in base64, malloc'ed. ERROR_BAD_IMAGE if
 * there is none. */
int ecr_token_parse(const void *answer, size_t n, char **ret, struct error *e);

#endif
