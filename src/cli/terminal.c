/* What a terminal can show: how wide it is, and whether it takes more than ASCII. */
#include "cli/cli.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

size_t cli_width(FILE *stream)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	uint64_t number;
	if (columns && number_parse(columns, 10000, &number) == 0 && number > 0)
		return (size_t)number;
	if (isatty(fileno(stream)) && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col)
		return size.ws_col;
	return 0;
}

bool cli_is_utf8(void)
{
	/* Ask without setting the locale: it must not change how numbers are written. */
	locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
	if (!locale)
		return false;
	bool utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
	freelocale(locale);
	return utf8;
}
