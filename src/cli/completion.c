/* Writes completions for bash from the verb table. The script is plain data in case branches and never
 * runs heft while the user types; process ids come from /proc. After the first operand of `run` the words
 * belong to another command; the script then asks that command's own completion (_command_offset, if
 * bash-completion has it). */
#include "cli/cli.h"

#include <string.h>

static void print_words(const char *list, FILE *out)
{
	for (const char *c = list; *c; c++)
		fputc(*c == '|' ? ' ' : *c, out);
}

static void print_verb_options(const struct cli_verb *verb, FILE *out)
{
	fprintf(out, "\t%s) options='", verb->name);
	for (const struct cli_option *o = verb->options; o->name; o++) {
		if (o->hidden)
			continue;
		fprintf(out, "%s--%s", o == verb->options ? "" : " ", o->name);
		if (o->letter)
			fprintf(out, " -%c", o->letter);
	}
	fprintf(out, "' operands=%s", verb->operands);
	if (verb->stops_at_operand)
		fprintf(out, " stops=1");
	/* Options whose value is the next word, so that a value is not taken for an operand. */
	fprintf(out, " valued='");
	for (const struct cli_option *o = verb->options; o->name; o++) {
		if (o->hidden || o->argument != CLI_ARG)
			continue;
		fprintf(out, " --%s", o->name);
		if (o->letter)
			fprintf(out, " -%c", o->letter);
	}
	fprintf(out, " ' ;;\n");
}

static void print_verb_values(const struct cli_verb *verb, FILE *out)
{
	for (const struct cli_option *o = verb->options; o->name; o++) {
		if (o->hidden || o->argument == CLI_NO_ARG || !o->value)
			continue;
		fprintf(out, "\t%s:--%s", verb->name, o->name);
		if (o->letter)
			fprintf(out, "|%s:-%c", verb->name, o->letter);
		if (cli_option_has_list(o)) {
			fprintf(out, ") COMPREPLY=($(compgen -W '");
			print_words(o->value, out);
			fprintf(out, "' -- \"$word\")); return ;;\n");
		} else if (strcmp(o->value, "FILE") == 0 || strcmp(o->value, "PATH") == 0) {
			fprintf(out, ") COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n");
		} else {
			fprintf(out, ") return ;;\n");
		}
	}
}

void cli_print_bash_completion(FILE *out)
{
	fprintf(out, "# bash completion for heft %s; written by heft itself\n_heft()\n{\n",
		HEFT_VERSION);
	fprintf(out,
		"\tlocal word=$2 last=$3 verb=${COMP_WORDS[1]} options operands valued stops i\n"
		"\tCOMPREPLY=()\n"
		"\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
		"\t\tCOMPREPLY=($(compgen -W '");
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		fprintf(out, "%s ", v->name);
	fprintf(out, "--help --version' -- \"$word\"))\n\t\treturn\n\tfi\n");
	/* readline may split --name=value at the sign. */
	fprintf(out, "\tif [ \"$last\" = '=' ] && [ \"$COMP_CWORD\" -gt 2 ]; then\n"
		     "\t\tlast=${COMP_WORDS[COMP_CWORD-2]}\n"
		     "\telif [ \"$word\" = '=' ]; then\n"
		     "\t\tword=\n"
		     "\tfi\n");
	fprintf(out, "\tcase $verb in\n");
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		print_verb_options(v, out);
	fprintf(out, "\t*) return ;;\n\tesac\n");
	fprintf(out, "\tif [ -n \"$stops\" ]; then\n"
		     "\t\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
		     "\t\t\tcase ${COMP_WORDS[i]} in\n"
		     "\t\t\t--) i=$((i + 1)); break ;;\n"
		     "\t\t\t-*) case $valued in *\" ${COMP_WORDS[i]} \"*)\n"
		     "\t\t\t\ti=$((i + 1))\n"
		     "\t\t\t\t[ \"${COMP_WORDS[i]}\" = '=' ] && i=$((i + 1)) ;;\n"
		     "\t\t\tesac ;;\n"
		     "\t\t\t*) break ;;\n"
		     "\t\t\tesac\n"
		     "\t\tdone\n"
		     "\t\tif [ \"$i\" -lt \"$COMP_CWORD\" ]; then\n"
		     "\t\t\tif declare -F _command_offset >/dev/null; then\n"
		     "\t\t\t\t_command_offset \"$i\"\n"
		     "\t\t\telse\n"
		     "\t\t\t\tCOMPREPLY=($(compgen -f -- \"$word\"))\n"
		     "\t\t\tfi\n"
		     "\t\t\treturn\n"
		     "\t\tfi\n"
		     "\tfi\n");
	fprintf(out, "\tcase $verb:$last in\n");
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		print_verb_values(v, out);
	fprintf(out, "\tesac\n"
		     "\tcase $word in\n"
		     "\t-*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")); return ;;\n"
		     "\tesac\n"
		     "\tcase $operands in\n"
		     "\tfile) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
		     "\tprocess) COMPREPLY=($(compgen -W \"$(cd /proc && echo [0-9]*)\" -- "
		     "\"$word\")) ;;\n"
		     "\tcommand) COMPREPLY=($(compgen -c -- \"$word\")) ;;\n"
		     "\tverb) COMPREPLY=($(compgen -W '");
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		fprintf(out, "%s%s", v == cli_verbs ? "" : " ", v->name);
	fprintf(out, "' -- \"$word\")) ;;\n"
		     "\tesac\n"
		     "}\n"
		     "complete -o filenames -o bashdefault -F _heft heft\n");
}
