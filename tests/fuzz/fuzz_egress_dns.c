/* DNS messages of a guest and of a resolver. The first byte chooses. A question that is accepted is
 * answered with a message that repeats it; an answer is read against a query of ours, of which the
 * input may hold a copy. */
#include "fuzz.h"

#include <errno.h>

#include "egress/dns.h"

static void try_question(const uint8_t *data, size_t n)
{
	struct dns_question q;
	struct dns_answer a = {.addresses = {0x01020304, 0x05060708}, .count = 2, .ttl_s = 60};
	struct buf b = BUF_INIT(4096);
	int r = dns_get_question(data, n, &q);

	check(r == -EBADMSG || (r >= 0 && r <= DNS_REFUSED));
	if (r == -EBADMSG)
		return;
	check(strlen(q.name) < sizeof(q.name) && q.raw_bytes <= sizeof(q.raw));
	a.rcode = (enum dns_rcode)r;
	if (r != DNS_NOERROR)
		a.count = 0;
	check(dns_put_answer(&b, &q, &a, 512) == 0);
	check(buf_len(&b) <= 512 && buf_len(&b) >= 12);
	check(memcmp(buf_head(&b), data, 2) == 0 && buf_head(&b)[2] & 0x80);
	check(memcmp(buf_head(&b) + 12, q.raw, q.raw_bytes) == 0);
	buf_done(&b);
}

static void try_answer(const uint8_t *data, size_t n)
{
	struct buf query = BUF_INIT(512);
	struct dns_answer a;
	uint8_t *copy;
	size_t echoed;
	bool cut;

	check(dns_put_query(&query, 0x1234, 5, "www.example.com") == 0);
	echoed = buf_len(&query) - 11; /* without EDNS */
	copy = malloc(n + echoed);
	check(copy);
	memcpy(copy, buf_head(&query), echoed);
	if (n > 10) { /* flags and counts are the input's, then records behind the question */
		memcpy(copy + 2, data, 10);
		memcpy(copy + echoed, data + 10, n - 10);
	}
	if (dns_get_answer(copy, n > 10 ? echoed + n - 10 : echoed, buf_head(&query),
		    buf_len(&query), &a, &cut) == 0)
		check(a.count <= DNS_ADDRESSES_MAX && (a.count == 0 || a.rcode == DNS_NOERROR));
	(void)dns_get_answer(data, n, buf_head(&query), buf_len(&query), &a, &cut);
	free(copy);
	buf_done(&query);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (data[0] % 2)
		try_answer(data + 1, size - 1);
	else
		try_question(data + 1, size - 1);
	return 0;
}
