/* GET /health: answers while the daemon serves. */
#ifndef API_HEALTH_H
#define API_HEALTH_H

#include "http/request.h"

void api_health(struct request *r);

#endif
