/* zlib's one-call forms with a gzip header, which is what browsers unpack both from
 * HTTP and with DecompressionStream; and base64, which is what stands in HTML without
 * any character that means something there. */
#include "pages/view_pack.h"

#include "hosted/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

enum { GZIP = 16 + MAX_WBITS, MEMORY = 8 };

int view_pack(const void *data, size_t bytes, int level, char **packed, size_t *packed_bytes)
{
	z_stream z = {0};
	*packed = NULL;
	if (bytes > UINT32_MAX ||
	    deflateInit2(&z, level, Z_DEFLATED, GZIP, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
		return HEFT_ENOMEM;
	size_t room = deflateBound(&z, (uLong)bytes);
	char *out = room <= UINT32_MAX ? malloc(room) : NULL;
	int rc = Z_MEM_ERROR;
	if (out) {
		z.next_in = (Bytef *)(uintptr_t)data;
		z.avail_in = (uInt)bytes;
		z.next_out = (Bytef *)out;
		z.avail_out = (uInt)room;
		rc = deflate(&z, Z_FINISH);
	}
	*packed_bytes = z.total_out;
	deflateEnd(&z);
	if (rc != Z_STREAM_END) {
		free(out);
		return HEFT_ENOMEM;
	}
	*packed = out;
	return 0;
}

int view_unpack(const void *packed, size_t packed_bytes, char *data, size_t bytes)
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)packed,
		      .avail_in = (uInt)packed_bytes,
		      .next_out = (Bytef *)data,
		      .avail_out = (uInt)bytes};
	if (inflateInit2(&z, GZIP) != Z_OK)
		return HEFT_ENOMEM;
	int rc = inflate(&z, Z_FINISH);
	inflateEnd(&z);
	return rc == Z_STREAM_END && z.total_out == bytes ? 0 : HEFT_ENOMEM;
}

char *view_base64(const void *data, size_t bytes, size_t *length)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = data;
	char *out = malloc((bytes + 2) / 3 * 4 + 1), *at = out;
	if (!out)
		return NULL;
	for (size_t i = 0; i < bytes; i += 3) {
		uint32_t three = (uint32_t)in[i] << 16 |
				 (i + 1 < bytes ? (uint32_t)in[i + 1] << 8 : 0) |
				 (i + 2 < bytes ? in[i + 2] : 0);
		*at++ = letters[three >> 18];
		*at++ = letters[three >> 12 & 63];
		*at++ = i + 1 < bytes ? letters[three >> 6 & 63] : '=';
		*at++ = i + 2 < bytes ? letters[three & 63] : '=';
	}
	*at = 0;
	*length = (size_t)(at - out);
	return out;
}
