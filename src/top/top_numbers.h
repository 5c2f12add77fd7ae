/* Inside src/top: numbers in at most five columns, so that a table has space left for names. */
#ifndef HEFT_TOP_TOP_NUMBERS_H
#define HEFT_TOP_TOP_NUMBERS_H

#include <stdint.h>

enum { TOP_NUMBER = 24 };
void top_bytes(char text[TOP_NUMBER], uint64_t bytes);   /* 512B, 9.8K, 412M */
void top_growth(char text[TOP_NUMBER], double bytes);    /* +1.2M, -12K, 0 */
void top_count(char text[TOP_NUMBER], uint64_t n);       /* 512, 9.8k, 92k */
void top_age(char text[TOP_NUMBER], uint64_t ns);        /* 12us, 4.1s, 2.5h */
void top_clock(char text[TOP_NUMBER], uint64_t time_ns); /* 02:13, 1:02:13 */

#endif
