/* GET /health: the daemon answers. */
#ifndef API_HEALTH_H
#define API_HEALTH_H

#include "http/request.h"

void api_health(struct request *r);

#endif
