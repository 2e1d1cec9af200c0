#include "api/health.h"

#include "http/reply.h"

void api_health(struct request *r)
{
	reply_empty(r, 204);
}
