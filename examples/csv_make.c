/* Writes the CSV that the csv_rows examples read: 12,427 lines (a header and 12,426 rows) of 7
 * columns, the same bytes every time, because the figures in the documentation come from it.
 *
 *     csv_make [ROWS] > example.csv
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t state = 2463534242u;

/* xorshift32: small, and the same everywhere. */
static uint32_t draw(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % below;
}

int main(int argc, char **argv)
{
	unsigned long rows = argc > 1 ? strtoul(argv[1], NULL, 10) : 12426;

	static const char *const names[] = {"Ada Marek",  "Bruno Lindqvist", "Chidi Okafor",
					    "Dana Weiss", "Emil Novotny",    "Fatima Haddad",
					    "Grace Tan",  "Hiro Sato"};
	static const char *const cities[] = {"Bergen",        "Thessaloniki", "Gdansk",   "Porto",
					     "San Sebastian", "Ulm",          "Reykjavik"};
	static const char *const states[] = {"open", "paid", "cancelled", "refunded"};

	puts("id,name,city,date,amount,state,reference");
	for (unsigned long i = 0; i < rows; i++) {
		/* One draw a statement: the order of arguments is the compiler's choice. */
		const char *name = names[draw(8)];
		const char *city = cities[draw(7)];
		uint32_t year = 2015 + draw(8);
		uint32_t month = 1 + draw(12);
		uint32_t day = 1 + draw(28);
		uint32_t euros = draw(100000);
		uint32_t cents = draw(100);
		const char *paid = states[draw(4)];
		uint32_t high = draw(0xffffffffu);
		uint32_t low = draw(0xffffffffu);

		printf("%lu,%s,%s,%04u-%02u-%02u,%u.%02u,%s,REF-%08x-%08x\n", 100000 + i, name,
		       city, year, month, day, euros, cents, paid, high, low);
	}
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
