/* Writes the CSV that the csv_rows examples read: 12,427 lines (a header and 12,426 rows) of 7
 * columns, the same bytes every time, because the figures in the documentation come from it.
 *
 *     csv_make > example.csv
 */
#include <stdint.h>
#include <stdio.h>

#define ROWS 12426

static uint32_t state = 2463534242u;

/* xorshift32: small, and the same everywhere. */
static uint32_t draw(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % below;
}

int main(void)
{
	static const char *const names[] = {"Ada Marek", "Bruno Lindqvist", "Chidi Okafor",
					    "Dana Weiss", "Emil Novotny", "Fatima Haddad",
					    "Grace Tan", "Hiro Sato"};
	static const char *const cities[] = {"Bergen", "Thessaloniki", "Gdansk", "Porto",
					     "San Sebastian", "Ulm", "Reykjavik"};
	static const char *const states[] = {"open", "paid", "cancelled", "refunded"};

	puts("id,name,city,date,amount,state,reference");
	for (int i = 0; i < ROWS; i++)
		printf("%d,%s,%s,%04u-%02u-%02u,%u.%02u,%s,REF-%08x-%08x\n", 100000 + i, names[draw(8)],
		       cities[draw(7)], 2015 + draw(8), 1 + draw(12), 1 + draw(28), draw(100000),
		       draw(100), states[draw(4)], draw(0xffffffffu), draw(0xffffffffu));
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
