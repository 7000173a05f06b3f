/* DEFLATE (RFC 1951) into memory of known size, and CRC-32, for the members
   of .npz archives. */
#ifndef IO_INFLATE_H
#define IO_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True if the stream is well-formed, ends, and fills exactly out_bytes. */
bool io_inflate(const unsigned char *in, size_t in_bytes, unsigned char *out,
                size_t out_bytes);

uint32_t io_crc32(const unsigned char *data, size_t length);

#endif
